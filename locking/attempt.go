package locking

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// queueAfter is how long a lock waits for stage 1 alone. Then it asks the
// grants for a place among the waiting, once, so that who has waited long goes
// first; short waits cost the grants nothing.
const queueAfter = time.Second

// attempt is a lock with Grants on its way, from the first try to the last. It
// belongs to one goroutine.
type attempt struct {
	*Locker
	owner       Owner
	requests    []Request
	resources   []Resource // that get an entry
	wait        bool
	sessionWait time.Duration // to wait for a session; 0 means not to
	began       time.Time

	liveSession *liveSession
	id          uuid.UUID // one in each session
	asked       bool      // the grants may know of it
	queued      bool      // the grants have refused it, and it has a place
	blocker     *blocker  // what was last in the way, where its entry may tell when it is gone
}

// blocker is an entry to poll, rather than the grants.
type blocker struct {
	HeldError
	lock string // whose entry it must be; "" for anybody's
}

func (l *Locker) newAttempt(owner Owner, requests []Request) (*attempt, error) {
	resources, err := l.advisoryResources(requests)
	if err != nil {
		return nil, err
	}
	if owner.Replica == "" {
		owner.Replica = l.options.Session.Replica
	}
	return &attempt{Locker: l, owner: owner.cleaned(), requests: requests, resources: resources,
		began: time.Now()}, nil
}

// try is one try. First stage 1, where what is held is seen cheaply; then the
// grants decide. What has a place among the waiting asks the grants first,
// and adds its entries after: it must not be kept out by the entries of others
// who are only trying.
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

// tryAdvisory returns a *HeldError while an entry is in the way. Otherwise it
// returns the lock's own, or nil where they are to be added later.
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

// enterSession makes sure that there is a session. In each one the lock has
// an id of its own: a session that ended has taken its place with it.
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

// poll returns the blocker while its entry is there, or nil when it is gone or
// stage 1 can't tell.
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

// enter adds an entry for each resource, or returns a *HeldError and leaves
// none. What can't be added for another reason is left out, and also what is
// held where it is decided that the lock is ours: renewals add it later.
func (a *attempt) enter(ctx context.Context, sent time.Time, decided bool) ([]held, error) {
	as := content{Holder: Holder{Owner: a.owner, Since: sent.UTC()}, Lock: a.id.String(),
		Session: a.liveSession.ID}
	advisory := make([]held, 0, len(a.resources))
	for _, resource := range a.resources {
		added, err := a.addOne(ctx, as, resource)
		e := held{advisoryLock: added}
		if errors.Is(err, ErrHeld) && !decided {
			a.undo(ctx, a.present(advisory))
			return nil, err
		}
		if err != nil {
			if e.advisoryLock, err = a.newAdvisory(as, resource); err != nil {
				return advisory, nil // no value can be made of it, now or later
			}
			e.absent = true
		}
		advisory = append(advisory, e)
	}
	return advisory, nil
}

// ask asks the grants, which decide.
func (a *attempt) ask(ctx context.Context) (Token, error) {
	a.asked = true
	request := GrantRequest{
		ID: a.id, Owner: a.owner, Requests: a.requests, Wait: a.wait,
		Reserve: ReserveOf(a.options.Reserve),
	}
	result, err := a.liveSession.Data.asks.Ask(ctx, claimCall{GrantRequest: request})
	if err != nil {
		// it may be, or may even be granted: the next try asks first
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
	if !b.Waiting {
		a.blocker = &blocker{HeldError: refused, lock: b.ID.String()}
	}
	return 0, &refused
}

// begin makes the lock that was granted.
func (a *attempt) begin(ctx context.Context, sent time.Time, advisory []held,
	token Token) (*Lock, error) {
	lock := newLock(ctx, a.Locker, a.owner, sent, a.requests, advisory)
	lock.id, lock.session, lock.token, lock.liveSession = a.id.String(), a.liveSession.ID, token, a.liveSession
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

// end ends an attempt. Where it failed, nothing is left of it: if the grants
// can't be told, a heartbeat finds it later.
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
			Msg("lock that was given up not withdrawn yet, a heartbeat does it")
	}
}
