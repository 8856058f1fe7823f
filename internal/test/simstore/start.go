package simstore

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// Start implements storage.Firings.
func (s *Store) Start(ctx context.Context, session uuid.UUID,
	requests []storage.StartRequest) ([]storage.StartResult, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := s.writeTime()
	results := make([]storage.StartResult, len(requests))
	for i, r := range requests {
		results[i] = s.decide(session, r, now)
	}
	return results, nil
}

func (s *Store) decide(session uuid.UUID, r storage.StartRequest,
	now time.Time) storage.StartResult {
	known := s.runs[r.Run]
	l, live := s.liveSession(session)
	facts := rules.Start{Session: session, Live: live, Pause: s.pauseOver(r.Firing.Job),
		Stale: s.stale(r.Firing.Job, r.Version), Taken: s.firings[firingOf(r.Firing)] != nil}
	if l != nil {
		facts.Replica, facts.Drains = l.Replica, l.draining
	}
	if known != nil {
		facts.Known, facts.Claimed = &known.Run, known.claim != nil
	}
	outcome, decided := facts.Outcome(r)
	if r.New && (decided || known != nil || s.refuses(r, now)) {
		return storage.StartResult{Outcome: storage.StartUndecided}
	}
	switch {
	case !decided && known != nil:
		return s.admit(l, known, r, now)
	case !decided:
		return s.admit(l, s.add(rules.NewRun(r.Run, r.Firing, now)), r, now)
	case outcome == storage.StartGranted:
		return storage.StartResult{Outcome: outcome, Token: known.Token}
	case outcome == storage.StartPaused && known != nil:
		next := known.Run
		next.HoldBack(facts.Pause)
		s.update(known, next, now)
		known.wants = nil // no run waits behind it
	}
	return storage.StartResult{Outcome: outcome}
}

// refuses reports whether a conflict refuses a firing that has no run.
func (s *Store) refuses(q storage.StartRequest, now time.Time) bool {
	r := &run{Run: rules.NewRun(q.Run, q.Firing, now)}
	return s.against(r, r.Position(r.Since(q.WaitSince)), q.Requests) != nil
}

// admit grants the run its requests, or leaves it waiting.
func (s *Store) admit(l *session, r *run, q storage.StartRequest,
	now time.Time) (result storage.StartResult) {
	next := r.Run
	next.Session, next.Replica = l.ID, l.Replica
	if p := s.against(r, r.Position(r.Since(q.WaitSince)), q.Requests); p != nil {
		result = next.Refuse(p, s.blocker(p), q, now)
		s.update(r, next, now)
		if r.wants == nil {
			r.wants = q.Requests
		}
		result.Queued = s.queued(r)
		return result
	}
	s.token++
	c := &claim{token: s.token, run: r, session: l, granted: now, held: q.Requests}
	s.claims[c.token], l.claims[c.token], r.claim = c, r.ID, c
	result = next.Grant(c.token, q, now)
	s.update(r, next, now)
	return result
}

// blocker returns p as a blocker, with the root if p waits.
func (s *Store) blocker(p *rules.Contender) jobs.Blocker {
	b := *p.Blocker()
	if b.Waiting {
		b.Root, _ = s.root(p.Run) // maps return no error
	}
	return b
}

// against returns the blocker of a run that has waited since then, or nil.
func (s *Store) against(r *run, since time.Time, requests []locking.Request) *rules.Contender {
	var first *rules.Contender
	for _, q := range requests {
		first = rules.First(first, s.againstOne(r, since, q))
	}
	return first
}

func (s *Store) againstOne(r *run, since time.Time, q locking.Request) *rules.Contender {
	search := rules.Search{Request: q}
	now := s.writeTime()
	for _, c := range s.claims {
		for _, held := range c.held {
			if search.Counts(held) { // a batch has very many claims, and few of them count
				search.Add(new(c.run.Contender(held, c.token)))
			}
		}
	}
	for _, other := range s.waiting {
		for _, wanted := range other.wanted() {
			if other == r || !search.Counts(wanted) {
				continue
			}
			p := other.Contender(wanted, 0)
			if p.Older(r.ID, since) && s.respects(other, wanted.Resource.Kind(), now) {
				search.Add(&p)
			}
		}
	}
	return search.Blocker()
}

// respects reports whether other runs wait behind a waiting run for a resource of that kind: its
// session keeps it and its position is reserved, or it is a triggered run that has not started,
// which keeps its position in its job in any session from its time on.
func (s *Store) respects(r *run, kind locking.Kind, now time.Time) bool {
	return s.keeps(r.Session) && r.Reserves(kind, now) ||
		r.manual() && kind == locking.KindJob && !r.WaitSince.After(now)
}

// manual reports whether the run was triggered and has not started.
func (r *run) manual() bool {
	return r.Key != "" && r.Backfill == uuid.Nil && r.Recovery == 0 && r.Attempt == 0
}

// wanted returns the resources of a waiting run for which others wait behind it.
func (r *run) wanted() []locking.Request {
	if own, err := locking.Job(r.Job); err == nil && r.manual() && len(r.wants) == 0 {
		return []locking.Request{{Resource: own, Mode: locking.Exclusive}}
	}
	return r.wants
}

// root returns the holder for which the waiter waits, directly or through other waiters.
func (s *Store) root(waiter uuid.UUID) (jobs.Root, error) {
	return rules.Root(waiter, func(run uuid.UUID) (*jobs.Blocker, error) {
		if r := s.runs[run]; r != nil {
			return r.BlockedBy, nil
		}
		return nil, nil
	}, func(run uuid.UUID) (bool, error) {
		r := s.runs[run]
		return r != nil && r.claim != nil, nil
	})
}

// queued reports whether another run has waited longer for the name of the job of r, which waits.
func (s *Store) queued(r *run) bool {
	wantsName := func(w locking.Request) bool { return w.Resource.Kind() == locking.KindJob }
	if !slices.ContainsFunc(r.wants, wantsName) {
		return false
	}
	for _, other := range s.waiting {
		waiter := other.Contender(locking.Request{}, 0)
		if s.keeps(other.Session) && other != r && other.Job == r.Job &&
			waiter.Older(r.ID, r.WaitSince) &&
			slices.ContainsFunc(other.wants, wantsName) {
			return true
		}
	}
	return false
}
