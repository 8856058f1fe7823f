package locking

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// queueAfter is how long a lock waits for an advisory lock only. Then it queues in
// the grants, once, so that the longest waiter goes first. Short waits cost the
// grants nothing.
const queueAfter = time.Second

// attempt is one acquisition of a lock with Grants, from the first try to the last.
// One goroutine uses it.
type attempt struct {
	*Locker
	owner       Owner
	requests    []Request
	wanted      []advisoryLock // without nonces and values
	wait        bool
	sessionWait time.Duration // longest wait for a session; 0 means none
	began       time.Time

	liveSession *liveSession
	id          uuid.UUID // differs in each session
	asked       bool      // the grants may know the lock
	queued      bool      // the grants have refused the lock and queued it
	blocker     *blocker  // what blocked the last try, if it has an advisory lock to poll
}

// blocker is an advisory lock to poll instead of the grants.
type blocker struct {
	HeldError
	lock string // the id of the blocker's lock; "" for any
}

func (l *Locker) newAttempt(owner Owner, requests []Request) (*attempt, error) {
	wanted, err := l.wantedLocks(requests)
	if err != nil {
		return nil, err
	}
	if owner.Replica == "" {
		owner.Replica = l.options.Session.Replica
	}
	return &attempt{Locker: l, owner: owner.cleaned(), requests: requests, wanted: wanted,
		began: time.Now()}, nil
}

// try adds the advisory locks, which shows conflicts cheaply, and then asks the
// grants. A queued lock asks the grants first and adds its advisory locks
// afterwards. Otherwise younger tries with advisory locks could keep it from its
// turn.
func (a *attempt) try(ctx context.Context) (*Lock, error) {
	if err := a.enterSession(ctx); err != nil {
		return nil, err
	}
	sent := time.Now()
	advisory, err := a.tryAdvisory(ctx, sent)
	if err != nil && (a.queued || !a.wait || time.Since(a.began) < queueAfter) {
		return nil, err
	}
	token, err := a.ask(ctx)
	if err != nil {
		a.undo(ctx, a.present(advisory))
		return nil, err
	}
	if advisory == nil {
		advisory, _ = a.enter(ctx, sent, true)
	}
	return a.begin(ctx, sent, advisory, token)
}

// tryAdvisory returns a *HeldError while another advisory lock blocks. Otherwise it
// returns the advisory locks that it added, or nil if the caller must add them
// later.
func (a *attempt) tryAdvisory(ctx context.Context, sent time.Time) ([]held, error) {
	if err := a.poll(ctx); err != nil || a.queued {
		return nil, err
	}
	advisory, err := a.enter(ctx, sent, false)
	var refused *HeldError
	if errors.As(err, &refused) {
		a.blocker = &blocker{HeldError: *refused}
	}
	return advisory, err
}

// enterSession makes sure that there is a session. The lock gets a new id in each
// session, because a position in the queue ends with its session.
func (a *attempt) enterSession(ctx context.Context) error {
	if a.liveSession != nil && a.liveSession.Context().Err() == nil {
		return nil
	}
	a.leave()
	next, err := a.keeper.Session()
	if err != nil && a.sessionWait > 0 {
		bounded, cancel := context.WithTimeout(ctx, a.sessionWait)
		defer cancel()
		next, err = a.keeper.Wait(bounded)
	}
	if err != nil {
		return err
	}
	a.liveSession, a.id = next, uuid.New()
	a.liveSession.Data.begin(a.id)
	return nil
}

func (a *attempt) leave() {
	if a.liveSession != nil {
		a.liveSession.Data.leave(a.id)
	}
	a.liveSession, a.asked, a.queued, a.blocker = nil, false, false, nil
}

// poll returns the blocker while its advisory lock exists. It returns nil when that
// is gone or cannot be read.
func (a *attempt) poll(ctx context.Context) error {
	b := a.blocker
	if b == nil {
		return nil
	}
	key := keyOf(a.options.Namespace, b.Resource.Key())
	if a.checkServer(key) != nil {
		return nil
	}
	found, err := a.backend.Get(ctx, key)
	if err != nil {
		if ctx.Err() == nil {
			a.recordFailure(key, err)
		}
		return nil
	}
	value, exists := found[key]
	c, ours := decode(value, b.Resource.Key())
	if exists && (b.lock == "" || ours && c.Lock == b.lock) && !(ours && a.isOrphan(c)) {
		return &HeldError{Resource: b.Resource, Holder: c.Holder}
	}
	a.blocker = nil
	return nil
}

// enter adds an advisory lock for each resource, or returns a *HeldError and leaves
// none. After other errors the advisory lock is marked absent, and a renewal adds it
// later. With decided, the grants have granted the lock, and a held key is such an
// error too.
func (a *attempt) enter(ctx context.Context, sent time.Time, decided bool) ([]held, error) {
	as := content{Holder: Holder{Owner: a.owner, Since: sent.UTC()}, Lock: a.id.String(),
		Session: a.liveSession.ID}
	var refused error
	advisory := make([]held, 0, len(a.wanted))
	for _, added := range a.addChecked(ctx, as, a.wanted) {
		e := held{advisoryLock: added.advisoryLock}
		if added.err != nil {
			e.advisoryLock, e.absent = a.newAdvisory(as, added.advisoryLock), true
		}
		if refused == nil && errors.Is(added.err, ErrHeld) {
			refused = added.err
		}
		advisory = append(advisory, e)
	}
	if refused != nil && !decided {
		a.undo(ctx, a.present(advisory))
		return nil, refused
	}
	return advisory, nil
}

// ask asks the grants for the lock.
func (a *attempt) ask(ctx context.Context) (Token, error) {
	a.asked = true
	request := GrantRequest{
		ID: a.id, Owner: a.owner, Requests: a.requests, Wait: a.wait,
		Reserve: ReserveOf(a.options.Reserve),
	}
	result, err := a.liveSession.Data.asks.Ask(ctx, claimCall{GrantRequest: request})
	if err != nil {
		// The grants may have queued or granted the lock. The next try asks them
		// first.
		a.queued, a.blocker = a.wait, nil
		if errors.Is(err, ErrSessionLost) {
			a.liveSession.MarkLost(err)
		}
		return 0, fmt.Errorf("grant of a lock: %w", err)
	}
	if result.Blocker == nil {
		return result.Token, nil
	}
	b := result.Blocker
	refused := HeldError{Resource: b.Resource, Holder: Holder{Owner: b.Holder, Since: b.Since},
		Waiting: b.Waiting}
	a.queued, a.asked, a.blocker = a.wait, a.wait, nil
	if !b.Waiting && a.backend != Backend(noBackend{}) {
		a.blocker = &blocker{HeldError: refused, lock: b.ID.String()}
	}
	return 0, &refused
}

// begin returns the granted lock.
func (a *attempt) begin(ctx context.Context, sent time.Time, advisory []held,
	token Token) (*Lock, error) {
	lock := newLock(ctx, a.Locker, a.owner, sent, a.requests, advisory)
	lock.id, lock.token = a.id.String(), token
	lock.session, lock.liveSession = a.liveSession.ID, a.liveSession
	if !a.liveSession.Data.add(lock) {
		lock.end(nil)
		a.undo(ctx, a.present(advisory))
		return nil, fmt.Errorf("grant of a lock: %w: %w", ErrNoSession,
			context.Cause(a.liveSession.Context()))
	}
	a.asked = false
	lock.keep(sent)
	return lock, nil
}

// end ends an attempt. A failed one withdraws its request. If that fails, a
// heartbeat finds the request later.
func (a *attempt) end(ctx context.Context) {
	defer a.leave()
	if !a.asked || a.liveSession == nil || a.liveSession.Context().Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	if _, err := a.liveSession.Data.asks.Ask(ctx,
		claimCall{GrantRequest: GrantRequest{ID: a.id}, withdraw: true}); err != nil {
		a.options.Log.Debug().Err(err).
			Msg("abandoned lock not withdrawn, a heartbeat retries")
	}
}
