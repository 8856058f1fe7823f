package locking

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/batch"
	"github.com/holdfast-dev/holdfast/internal/breaker"
	"github.com/holdfast-dev/holdfast/internal/session"
)

const (
	minLease = 10 * time.Second
	maxLease = 24 * time.Hour
	// An item may vanish that much early, as measured on memcached 1.6.18.
	trustMargin = 2 * time.Second
	addTries    = 4 // of one key, when it vanishes between requests or replies are lost
)

// Options configure a Locker.
type Options struct {
	Namespace string        // the cluster's id, first in every key; 1 to 100 bytes without spaces
	Lease     time.Duration // 10 s to 24 h, cut to whole seconds
	// Restore says that the caller's store decides which run may commit. The Locker adds a vanished
	// advisory lock again and reports an event.
	Restore bool
	// Grants, if set, decides on each lock. Each lock then has a token and belongs to one session,
	// which Run keeps open. Grants implies Restore.
	Grants Grants
	// Sessions, if set, reports which sessions are alive, for locks of TryAcquireIn. With Grants,
	// this field is ignored.
	Sessions Sessions
	// Session names this replica to Grants. Each session gets a new ID. ReplaceEarlier applies only
	// to the first one. TTL is 1 s to 24 h, and 0 means 15 s.
	Session Session
	// Reserve is the argument reserve of the function Reserve. 0 means DefaultReserve, and
	// NeverReserve means no reservation.
	Reserve time.Duration
	Log     zerolog.Logger
	// OnEvent, if set, is called for each event, from several goroutines. It must return soon and
	// must not release locks.
	OnEvent func(Event)
}

// Locker takes locks, and renews them while Run runs. Its methods may be called concurrently.
type Locker struct {
	backend Backend
	options Options

	nonces   *nonces
	decoded  decodedValues
	strays   strays
	owners   *owners
	breakers breaker.Servers // of the backend, used with Options.Restore
	renewals renewals
	failing  atomic.Int64 // locks with a failed last renewal
	locks    liveLocks

	// Set with Grants:
	keeper   *session.Keeper[*sessionLocks] // nil without Grants
	releases *batch.Batch[Token, bool]
	swept    swept
}

// New returns a Locker on b, or an error for each wrong option. With Grants, b may be nil. Then
// there are no advisory locks, and Namespace and Lease are ignored.
func New(b Backend, o Options) (*Locker, error) {
	if b == nil && o.Grants == nil {
		return nil, errors.New("a locker needs a backend or grants")
	}
	if b == nil {
		b, o.Lease = noBackend{}, maxLease
	} else if err := o.checkEntries(); err != nil {
		return nil, err
	}
	o.Lease = wholeSeconds(o.Lease)
	l := &Locker{backend: b, nonces: newNonces(), renewals: newRenewals()}
	if o.Grants != nil {
		if err := o.checkSession(); err != nil {
			return nil, err
		}
		o.Restore, o.Sessions = true, o.Grants
		l.releases = newReleases(o.Grants)
	}
	l.options, l.owners = o, newOwners(o.Sessions)
	if o.Grants != nil {
		l.keeper = l.newKeeper()
	}
	return l, nil
}

func (o *Options) checkEntries() error {
	if err := checkNamespace(o.Namespace); err != nil {
		return err
	}
	if o.Lease < minLease || o.Lease > maxLease {
		return fmt.Errorf("lease: found %s, expected %s to %s", o.Lease, minLease, maxLease)
	}
	return nil
}

// TryAcquire locks all requests, or none. It never waits for a holder. The end of ctx does not end
// the lock. It returns one of these errors:
//   - a *HeldError if a resource is held or, with Options.Grants, an older waiter wants it
//   - a *RequestError or ErrBadName if Normalize refuses the requests
//   - an *UnsupportedError
//   - ErrUnavailable, ErrUnclear, ErrFull or ErrTooLarge if the backend failed. Run removes
//     advisory locks that may be left behind.
//
// With Options.Grants, failures of the backend are not errors, because the grants decide.
// TryAcquire then returns ErrUnavailable if the grants cannot be reached. It returns ErrNoSession
// if there is no session, and ErrSessionLost if the session was lost meanwhile.
func (l *Locker) TryAcquire(ctx context.Context, owner Owner, requests []Request) (*Lock, error) {
	if l.keeper == nil {
		return l.TryAcquireIn(ctx, uuid.Nil, owner, requests)
	}
	normalized, err := Normalize(requests)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	a, err := l.newAttempt(owner, normalized)
	if err != nil {
		return nil, err
	}
	defer a.end(ctx)
	return a.try(ctx)
}

// TryAcquireIn is TryAcquire for a Locker without Grants whose caller has a session in its own
// store. If Options.Sessions reports the session dead, any replica may remove the advisory locks.
func (l *Locker) TryAcquireIn(ctx context.Context, session uuid.UUID, owner Owner,
	requests []Request) (*Lock, error) {
	t, err := l.newNormalTry(ctx, session, Wanted{owner, requests})
	if err != nil {
		return nil, err
	}
	return t.alone(ctx)
}

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

// newNormalTry is newTry for requests that may not be in normal form.
func (l *Locker) newNormalTry(ctx context.Context, session uuid.UUID, w Wanted) (*try, error) {
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
	lock := newLock(ctx, l, t.owner, t.sent, t.requests, asHeld(advisory))
	lock.session = t.session
	if !lock.keep(t.sent) {
		lock.end(nil)
		l.undo(ctx, advisory)
		return nil, fmt.Errorf("lock of %d resources took longer than its lease: %w", len(advisory),
			ErrUnavailable)
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

// allOrNone returns all advisory locks, or removes those that were added. A conflict counts more
// than the failure of a server.
func (l *Locker) allOrNone(ctx context.Context, additions []addition) ([]advisoryLock, error) {
	advisory := make([]advisoryLock, 0, len(additions))
	var failure error
	for _, a := range additions {
		switch {
		case a.err == nil:
			advisory = append(advisory, a.advisoryLock)
		case failure == nil || errors.Is(a.err, ErrHeld) && !errors.Is(failure, ErrHeld):
			failure = a.err
		}
	}
	if failure != nil {
		l.undo(ctx, advisory)
		return nil, failure
	}
	return advisory, nil
}

// undo removes the advisory locks of a failed attempt. What it cannot remove becomes
// a stray, so it returns no error.
func (l *Locker) undo(ctx context.Context, advisory []advisoryLock) {
	if len(advisory) == 0 {
		return
	}
	if err := l.removeAll(ctx, advisory); err != nil {
		l.options.Log.Debug().Err(err).Msg("advisory locks of a failed attempt not removed")
	}
}

// addition is the result of an attempt to add one advisory lock.
type addition struct {
	advisoryLock
	err error
}

// addEach adds all advisory locks in one request, and settles them.
func (l *Locker) addEach(ctx context.Context, as content, wanted []advisoryLock) []addition {
	additions := l.newAdditions(as, wanted)
	l.settle(ctx, as, additions, l.addItems(ctx, itemsOf(additions)))
	return additions
}

// newAdditions returns the wanted advisory locks with the nonces and the values of one try.
func (l *Locker) newAdditions(as content, wanted []advisoryLock) []addition {
	additions := make([]addition, len(wanted))
	for i, w := range wanted {
		additions[i].advisoryLock = l.newAdvisory(as, w)
	}
	return additions
}

// addItems adds advisory locks in one request.
func (l *Locker) addItems(ctx context.Context, items []Item) []Added {
	if len(items) == 0 {
		return nil
	}
	return l.backend.AddAll(ctx, items, l.options.Lease)
}

func itemsOf(additions []addition) []Item {
	items := make([]Item, len(additions))
	for i, a := range additions {
		items[i] = Item{Key: a.key, Value: a.value}
	}
	return items
}

// settle sets the results of additions after their first request. It tries again with those whose
// keys were free when it looked why they had been refused.
func (l *Locker) settle(ctx context.Context, as content, additions []addition, added []Added) {
	again := l.judgeEach(ctx, additions, added)
	for try := 1; try < addTries && len(again) > 0; try++ {
		next := make([]addition, len(again))
		for n, i := range again {
			next[n].advisoryLock = l.newAdvisory(as, additions[i].advisoryLock)
		}
		left := l.judgeEach(ctx, next, l.addItems(ctx, itemsOf(next)))
		for n, i := range again {
			additions[i] = next[n]
		}
		for n, i := range left {
			left[n] = again[i]
		}
		again = left
	}
}

// judgeEach sets the results of additions after a request. It returns the indexes of those that
// failed and may succeed at another try.
func (l *Locker) judgeEach(ctx context.Context, additions []addition, added []Added) (again []int) {
	var failed []int
	for i := range additions {
		additions[i].version = added[i].Version
		if added[i].Err != nil {
			failed = append(failed, i)
		}
	}
	retry := make([]bool, len(failed))
	var judged sync.WaitGroup // looks at the same time share their requests
	for n, i := range failed {
		judged.Go(func() {
			a := &additions[i]
			retry[n], a.err = l.judge(ctx, a.advisoryLock, added[i])
		})
	}
	judged.Wait()
	for n, i := range failed {
		if retry[n] {
			again = append(again, i)
		}
	}
	return again
}

// judge finds out why an add failed. It returns nil if the advisory lock exists
// after all. Otherwise it returns the error, and whether another try may help.
func (l *Locker) judge(ctx context.Context, e advisoryLock, added Added) (again bool, err error) {
	unclear := errors.Is(added.Err, ErrUnclear)
	if !unclear && !errors.Is(added.Err, ErrNotStored) {
		l.nonces.drop(e.nonce)
		return false, fmt.Errorf("lock of %s: %w", e.resource, added.Err)
	}
	value, exists := added.Found, added.Found != nil
	var lookErr error
	if !exists {
		var found map[string][]byte
		found, lookErr = l.backend.Get(ctx, e.key)
		value, exists = found[e.key]
	}
	if unclear && exists && bytes.Equal(value, e.value) {
		return false, nil
	}
	l.giveUp(e, unclear)
	switch {
	case lookErr != nil && unclear:
		return false, fmt.Errorf("lock of %s: %w", e.resource, added.Err)
	case lookErr != nil:
		return false, &HeldError{Resource: e.resource}
	case !exists && unclear:
		return true, fmt.Errorf("lock of %s: %w", e.resource, added.Err)
	case !exists:
		return true, &HeldError{Resource: e.resource}
	}
	held, orphan := l.read(e.resource, value)
	if orphan {
		return l.removeOrphan(ctx, e.key, value), &HeldError{Resource: e.resource, Holder: held}
	}
	return false, &HeldError{Resource: e.resource, Holder: held}
}

// read returns the holder in an advisory lock's value, and whether the advisory lock
// is an orphan.
func (l *Locker) read(resource Resource, value []byte) (held Holder, orphan bool) {
	c, ok := l.decoded.decode(value, resource.Key())
	if !ok {
		return Holder{}, false
	}
	return c.Holder, l.isOrphan(c)
}

// isOrphan reports whether no live lock owns an advisory lock: it is a stray of this
// Locker, or its session is dead.
func (l *Locker) isOrphan(c content) bool {
	return l.nonces.isStray(c.Nonce) || l.owners.isDead(c.Session)
}

// newAdvisory returns the wanted advisory lock with the nonce and the value of one attempt.
func (l *Locker) newAdvisory(as content, wanted advisoryLock) advisoryLock {
	wanted.nonce = l.nonces.draw()
	as.Nonce, as.Resource = wanted.nonce, wanted.resource.Key()
	wanted.value = as.encode()
	return wanted
}

// giveUp marks an attempt's advisory lock as a stray. With maybeThere it may exist,
// or may still arrive, and Run looks for it.
func (l *Locker) giveUp(e advisoryLock, maybeThere bool) {
	l.nonces.drop(e.nonce)
	if maybeThere {
		l.strays.note(e, time.Now().Add(l.options.Lease))
		l.renewals.news()
	}
}

// trust returns the end of the trust in an advisory lock whose request was sent at
// that time.
func (l *Locker) trust(sent time.Time) time.Time { return sent.Add(l.options.Lease - trustMargin) }

func (l *Locker) emit(e Event) {
	if l.options.OnEvent != nil {
		l.options.OnEvent(e)
	}
}
