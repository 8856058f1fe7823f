package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/fleet"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

// The parts of the show, as a worker's first argument.
const (
	blocking    = "blocking"     // one at a time; each waits for its turn
	nonBlocking = "non-blocking" // one at a time; each asks, does something else, and asks again
	semaphore   = "semaphore"    // three at a time
	stay        = "stay"         // in a slot, until it is killed
)

const (
	slots      = 3
	sessionTTL = 5 * time.Second
	workTime   = 20 * time.Millisecond
	otherWork  = 3 * time.Millisecond
)

// waitPolicy is how a worker waits for its locks.
var waitPolicy = retry.Policy{Delay: 10 * time.Millisecond, Elapsed: time.Minute, Jitter: 0.5}

// work is a worker's process: PART and how often to come in.
func work(ctx context.Context, args []string) (err error) {
	if len(args) != 2 {
		return fmt.Errorf("expected a part and a number, found %q", args)
	}
	turns, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	m, err := fleet.Join(ctx, fleet.Settings{Lease: 10 * time.Second, SessionTTL: sessionTTL})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Leave()) }()
	w := &worker{Member: m, part: args[0]}
	fmt.Println("joined")
	for range turns {
		if err := w.turn(ctx); err != nil {
			return err
		}
	}
	fmt.Println("done, refused", w.refused)
	return nil
}

type worker struct {
	*fleet.Member
	part    string
	refused int // how often it was told that the lock is held
}

// turn comes in, works, and goes out.
func (w *worker) turn(ctx context.Context) error {
	lock, err := w.comeIn(ctx)
	if err != nil {
		return err
	}
	if err := w.inside(lock); err != nil {
		return errors.Join(err, lock.Release(ctx))
	}
	return lock.Release(ctx)
}

func (w *worker) comeIn(ctx context.Context) (*locking.Lock, error) {
	wanted, err := wanted(w.part)
	if err != nil {
		return nil, err
	}
	if w.part != nonBlocking {
		return w.Locker.Acquire(ctx, w.Owner(w.part), wanted, waitPolicy)
	}
	for {
		lock, err := w.Locker.TryAcquire(ctx, w.Owner(w.part), wanted)
		switch {
		case errors.Is(err, locking.ErrUnavailable):
			// no reply in time: no lock is held, so try again
		case errors.Is(err, locking.ErrHeld):
			w.refused++
		default:
			return lock, err
		}
		if err := pause(ctx, otherWork); err != nil {
			return nil, err
		}
	}
}

// wanted is what the workers of a part lock.
func wanted(part string) ([]locking.Request, error) {
	if part == blocking || part == nonBlocking {
		door, err := locking.Path("door")
		return []locking.Request{{Resource: door, Mode: locking.Exclusive}}, err
	}
	room, err := locking.Slot("room")
	return []locking.Request{{Resource: room, Mode: locking.Slotted, Slots: slots}}, err
}

const (
	enter = `INSERT INTO visits (part, worker, token, entered)
		VALUES ($1, $2, $3, clock_timestamp())`
	leave = `UPDATE visits SET left_at = clock_timestamp() WHERE token = $1`
)

// inside writes down that the worker is in, works, and writes down that it is
// about to go.
func (w *worker) inside(lock *locking.Lock) error {
	ctx := lock.Context() // it ends when the lock is lost
	db := w.Store.Pool()
	if _, err := db.Exec(ctx, enter, w.part, w.Name, lock.Token()); err != nil {
		return fmt.Errorf("coming in: %w", err)
	}
	if w.part == stay {
		fmt.Println("inside")
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if err := pause(ctx, workTime); err != nil {
		return err
	}
	if _, err := db.Exec(ctx, leave, lock.Token()); err != nil {
		return fmt.Errorf("going out: %w", err)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
