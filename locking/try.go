package locking

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/plural"
)

// Wanted is what one owner wants to lock.
type Wanted struct {
	Owner    Owner
	Requests []Request
}

// TryAcquireEachIn is TryAcquireIn for several owners, in as few requests as possible. Each owner
// gets a lock of its own, or none. TryAcquireEachIn calls tried once for each of them, with its
// index, as soon as its result is known. These calls may be concurrent, and must not block: some
// are made one after the other. TryAcquireEachIn returns when the last one has returned. An owner
// may be refused by another one that wants the same resource and gets no lock either.
func (l *Locker) TryAcquireEachIn(ctx context.Context, session uuid.UUID, all []Wanted,
	tried func(i int, lock *Lock, err error)) {
	tries := make([]*try, len(all)) // nil where there is an error
	var items []Item
	for i, w := range all {
		var err error
		if tries[i], err = l.newNormalTry(ctx, session, w); err != nil {
			tried(i, nil, err)
			continue
		}
		items = append(items, itemsOf(tries[i].additions)...)
	}
	added := l.addItems(ctx, items)
	var failed sync.WaitGroup
	for i, t := range tries {
		if t == nil {
			continue
		}
		mine := added[:len(t.additions)]
		added = added[len(mine):]
		settle := func() {
			lock, err := t.settle(ctx, mine)
			tried(i, lock, err)
		}
		if slices.ContainsFunc(mine, func(a Added) bool { return a.Err != nil }) {
			failed.Go(settle) // sends requests
		} else {
			settle()
		}
	}
	failed.Wait()
}

// errHasGrants refuses a lock without a grant: it would exclude no lock that has one.
var errHasGrants = errors.New("the Locker has Grants: use TryAcquire or Acquire")

// newNormalTry is newTry for requests that may not be in normal form. It refuses a Locker with
// Grants.
func (l *Locker) newNormalTry(ctx context.Context, session uuid.UUID, w Wanted) (*try, error) {
	if l.keeper != nil {
		return nil, errHasGrants
	}
	normalized, err := Normalize(w.Requests)
	if err != nil {
		return nil, err
	}
	return l.newTry(ctx, session, w.Owner, normalized)
}

// alone sends the first request for this try only, and ends it.
func (t *try) alone(ctx context.Context) (*Lock, error) {
	return t.settle(ctx, t.locker.addItems(ctx, itemsOf(t.additions)))
}

// try is one try to lock all requests, or none.
type try struct {
	locker    *Locker
	owner     Owner
	session   uuid.UUID
	requests  []Request // in normal form
	sent      time.Time // the lease counts from before the first request
	as        content
	additions []addition
}

// newTry returns a try that has sent no request, or an error if none is worth while.
func (l *Locker) newTry(ctx context.Context, session uuid.UUID, owner Owner,
	normalized []Request) (*try, error) {
	wanted, err := l.wantedLocks(normalized)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for _, w := range wanted {
		if err := l.checkServer(w.key); err != nil {
			return nil, fmt.Errorf("lock of %s: %w", w.resource, err)
		}
	}
	t := &try{locker: l, owner: owner, session: session, requests: normalized, sent: time.Now()}
	t.as = content{Holder: Holder{Owner: owner, Since: t.sent.UTC()}, Session: session}
	t.additions = l.newAdditions(t.as, wanted)
	return t, nil
}

// settle ends the try after its first request, which had these results.
func (t *try) settle(ctx context.Context, added []Added) (*Lock, error) {
	l := t.locker
	l.settle(ctx, t.as, t.additions, added)
	l.recordFailures(ctx, t.additions)
	advisory, err := l.allOrNone(ctx, t.additions)
	if err != nil {
		return nil, err
	}
	lock := newLock(ctx, l, t.owner, t.sent, t.requests, advisory)
	lock.session = t.session
	if !lock.keep(t.sent) {
		lock.end(nil)
		l.undo(ctx, l.present(advisory))
		return nil, fmt.Errorf("lock of %s took longer than its lease: %w",
			plural.Of(len(advisory), "resource", "resources"), ErrUnavailable)
	}
	return lock, nil
}

// wantedLocks returns the advisory locks that the requests need, without nonces and values.
func (l *Locker) wantedLocks(requests []Request) ([]advisoryLock, error) {
	if l.backend == (noBackend{}) {
		return nil, nil
	}
	wanted := make([]advisoryLock, 0, len(requests))
	for _, r := range requests {
		switch {
		case r.Mode == Exclusive && (r.Resource.Kind() != KindJob || !l.options.Restore):
			wanted = append(wanted, advisoryLock{resource: r.Resource,
				key: keyOf(l.options.Namespace, r.Resource.Key())})
		case !l.options.Restore:
			return nil, &UnsupportedError{Request: r}
		}
	}
	return wanted, nil
}
