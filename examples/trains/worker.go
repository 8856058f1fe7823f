package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/test/fleet"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

const (
	lockLease  = 2 * time.Minute
	sessionTTL = 5 * time.Second
	maxTries   = 3 // of a message, before it is left alone for a while
	idleTime   = 10 * time.Millisecond
)

// lockWait is how a worker waits for a train and its locations.
var lockWait = retry.Policy{Attempts: 10, Delay: 10 * time.Millisecond, Jitter: 0.5}

// errChanged means that another worker has changed the rows since this one read them. It cannot
// happen while the locks are held. Careful authors check it nevertheless.
var errChanged = errors.New("changed by another")

// errEarly says that an earlier message of the train has not been done yet.
var errEarly = errors.New("an earlier message of the train is not done")

// work is the process of some workers: how many.
func work(ctx context.Context, args []string) (err error) {
	if len(args) != 1 {
		return fmt.Errorf("expected a number of workers, found %q", args)
	}
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	m, err := fleet.Join(ctx, fleet.Settings{Lease: lockLease, SessionTTL: sessionTTL})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Leave()) }()
	fmt.Println("joined")
	crew := &crew{Member: m}
	var workers sync.WaitGroup
	ended := make([]error, n)
	for i := range n {
		workers.Go(func() { ended[i] = crew.work(ctx) })
	}
	workers.Wait()
	fmt.Println("done", crew.refused.Load(), crew.postponed.Load(), crew.changed.Load(),
		crew.early.Load())
	return errors.Join(ended...)
}

// crew is the workers of one process.
type crew struct {
	*fleet.Member
	refused, postponed, changed, early atomic.Int64
}

// work takes messages until all are done.
func (c *crew) work(ctx context.Context) error {
	for {
		m, state, err := c.take(ctx)
		switch {
		case err != nil:
			return err
		case state == queueDone:
			return nil
		case state == queueBusy:
			if err := pause(ctx, idleTime); err != nil {
				return err
			}
			continue
		}
		if err := c.handle(ctx, m); err != nil {
			return fmt.Errorf("message %d: %w", m.id, err)
		}
	}
}

// handle locks what the message is about, saves, and gives the message back
// where it could not.
func (c *crew) handle(ctx context.Context, m message) error {
	wanted, err := m.wanted()
	if err != nil {
		return err
	}
	lock, err := c.Locker.Acquire(ctx, c.Owner(string(m.kind)), wanted, lockWait)
	if err == nil {
		err = errors.Join(c.save(lock, m), releaseError(lock.Release(ctx)))
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, locking.ErrHeld):
		c.refused.Add(1)
	case errors.Is(err, errChanged):
		c.changed.Add(1)
	case errors.Is(err, errEarly):
		c.early.Add(1)
	default:
		return err
	}
	return c.giveBack(ctx, m)
}

// releaseError passes over that a lock was lost: the fence has decided.
func releaseError(err error) error {
	var lost *locking.LostError
	if errors.As(err, &lost) {
		return nil
	}
	return err
}

// wanted is the train and its one or two locations.
func (m message) wanted() ([]locking.Request, error) {
	var requests []locking.Request
	for _, name := range append([]string{"trains/" + m.train},
		prefixed("locations/", m.locations())...) {
		resource, err := locking.Path(name)
		if err != nil {
			return nil, err
		}
		requests = append(requests, locking.Request{Resource: resource, Mode: locking.Exclusive})
	}
	return requests, nil
}

func prefixed(prefix string, names []string) []string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = prefix + name
	}
	return all
}

const (
	readTrain    = `SELECT done, version FROM trains WHERE name = $1`
	readLocation = `SELECT version FROM locations WHERE name = $1`
	saveTrain    = `UPDATE trains SET done = $2, place = $3, version = version + 1
		WHERE name = $1 AND version = $4`
	saveLocation = `
UPDATE locations SET created = created + $2, arrived = arrived + $3, departed = departed + $4,
    deleted = deleted + $5, version = version + 1
WHERE name = $1 AND version = $6`
	saveMessage = `UPDATE messages SET done_at = clock_timestamp()
		WHERE id = $1 AND done_at IS NULL`
)

// save applies the message in one transaction that commits only while the lock
// stands.
func (c *crew) save(lock *locking.Lock, m message) error {
	versions := map[string]int{}
	for _, name := range m.locations() { // as an author would: read, decide, save
		var version int
		if err := c.Store.Pool().QueryRow(lock.Context(), readLocation, name).
			Scan(&version); err != nil {
			return fmt.Errorf("read of %s: %w", name, err)
		}
		versions[name] = version
	}
	var done, trainVersion int
	if err := c.Store.Pool().QueryRow(lock.Context(), readTrain, m.train).
		Scan(&done, &trainVersion); err != nil {
		return fmt.Errorf("read of %s: %w", m.train, err)
	}
	if done >= m.number {
		return nil // another worker did it, and its report was lost
	}
	if done+1 < m.number {
		return errEarly
	}
	return c.Store.InLock(lock.Context(), lock, func(tx pgx.Tx) error {
		ctx := lock.Context()
		if err := one(tx.Exec(ctx, saveMessage, m.id)); err != nil {
			return err
		}
		if err := one(tx.Exec(ctx, saveTrain, m.train, m.number, m.to, trainVersion)); err != nil {
			return err
		}
		for name, e := range m.effects() {
			if err := one(tx.Exec(ctx, saveLocation, name, e.created, e.arrived, e.departed,
				e.deleted, versions[name])); err != nil {
				return err
			}
		}
		return nil
	})
}

// rowsAffected is what pgx answers to a statement.
type rowsAffected interface{ RowsAffected() int64 }

// one returns errChanged where a statement did not find its one row.
func one[T rowsAffected](tag T, err error) error {
	if err == nil && tag.RowsAffected() != 1 {
		return errChanged
	}
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
