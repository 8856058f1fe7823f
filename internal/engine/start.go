package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// startBackoff is the delay before a call to the store is repeated.
const startBackoff = 200 * time.Millisecond

var (
	// errEnded says that this replica has nothing more to do for the firing.
	errEnded = errors.New("firing has ended here")
	// errSuspended says that an operator keeps this replica from starting the firing, and that no
	// other replica begins it.
	errSuspended = errors.New("firing is suspended")
)

// claim is the right of one attempt to commit, with the advisory locks that were taken for it.
type claim struct {
	token   jobs.Token
	lock    *locking.Lock // nil if memcached is not used or did not answer
	granted time.Time
}

// starter requests claims from the store.
type starter struct {
	calls  *batcher[sessionCall[storage.StartRequest], storage.StartResult]
	ttl    time.Duration // of the session
	active *active
	notes  *notes
	events *events
	stale  func() // called if this replica does not know the active definition yet
	paused func() // called if this replica does not know the pause yet
}

// start requests the claim of the firing. It returns a token, or a refusal, or the error for which
// there is neither. apart says that the last call was answered with ErrRowHeld.
//
// A firing that met the advisory lock of another run of its job may wait in the store for the start
// of that run, with all firings of its batch. So it is also sent apart.
//
// While the outcome of an earlier call is unknown, start keeps the worker and asks again for as
// long as the session lives, however late the firing is. The run may have its claim already, and no
// replica would execute it. After stop it asks for at most the TTL of a session.
func (s starter) start(stop context.Context, f *firing, apart bool) (jobs.Token, *refusal, error) {
	start := f.spans.now()
	result, err := s.ask(stop, f, apart)
	if result.Outcome != storage.StartGranted {
		f.endTurn()
	}
	var token jobs.Token
	var refused *refusal
	if err == nil {
		token, refused, err = s.started(f, result)
	}
	f.spans.asked(start, token, refused)
	return token, refused, err
}

// ask sends the request until the store has answered, or until that is of no more use.
func (s starter) ask(stop context.Context, f *firing, apart bool) (storage.StartResult, error) {
	request := storage.StartRequest{
		Run: f.run, Firing: f.Firing, Version: f.startVersion(), Attempt: f.attempt,
		Requests: f.entry.requests, WaitSince: f.since, Reserve: f.entry.ReserveTime(),
		New: f.adopted == uuid.Nil && !f.written,
	}
	var stopped time.Time
	for unknown, undecided := false, false; ; {
		result, err := s.send(f, request, apart || f.unlocked, undecided)
		apart = errors.Is(err, storage.ErrRowHeld)
		unknown = unknown || !apart
		request.New = false
		switch {
		case err == nil && result.Outcome == storage.StartUndecided:
			unknown, undecided = false, true
			continue
		case err == nil, f.session.Context().Err() != nil:
			return result, err
		case !errors.Is(err, storage.ErrUnavailable):
			f.endTurn()
			s.notes.fail(f, err)
			return result, err
		case !unknown: // the store answered that it did nothing
			return result, err
		}
		if stopped.IsZero() && stop.Err() != nil {
			stopped = time.Now()
		}
		if !stopped.IsZero() && time.Since(stopped) > s.ttl {
			f.warn().Err(err).Msg("start has an unknown outcome, giving up at shutdown")
			return result, err
		}
		f.endTurn() // the next tries may take long
		sleep.For(f.session.Context(), startBackoff)
	}
}

// send sends the request once. again says that the store has left the firing undecided. Then, or if
// the firing was woken because a resource is free, it does not wait for others.
func (s starter) send(f *firing, request storage.StartRequest, apart,
	again bool) (storage.StartResult, error) {
	call := sessionCall[storage.StartRequest]{f.session.ID, request}
	if (again || f.woken != "") && !apart {
		return s.calls.askNow(f.session.Context(), call)
	}
	return s.calls.askExpected(f.session.Context(), call, apart, f.expected)
}

// started returns what start returns for an answer of the store.
func (s starter) started(f *firing, result storage.StartResult) (jobs.Token, *refusal, error) {
	switch result.Outcome {
	case storage.StartGranted:
		f.written = true
		// until perform has a context to cancel
		s.active.add(result.Token, f.run, func(error) {})
		return result.Token, nil, nil
	case storage.StartBlocked:
		f.noted, f.written = result.Blocker, true
		return 0, &refusal{
			reason: result.Reason, blocker: result.Blocker, granted: true, queued: result.Queued,
			backfill:      result.Backfill,
			reservedUntil: time.Now().Add(result.Reserved),
		}, nil
	case storage.StartDuplicate:
		s.events.revoked(f)
	case storage.StartStale:
		s.stale()
	case storage.StartPaused:
		s.paused()
		if f.adopted == uuid.Nil && !f.written {
			return 0, nil, errSuspended
		}
	case storage.StartNotLive:
		f.session.MarkLost(fmt.Errorf("%w: it is not live in the store", storage.ErrSessionLost))
	}
	return 0, nil, errEnded
}

// startVersion returns the version for requests to the store: 0 for adopted runs, because the
// replica that recorded them had the active definition.
func (f *firing) startVersion() int64 {
	if f.adopted != uuid.Nil {
		return 0
	}
	return f.entry.activeVersion.own()
}
