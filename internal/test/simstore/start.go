package simstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// Start implements jobs.Firings.
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
	mine := known != nil && known.session == session
	l, live := s.living(session)
	switch {
	case mine && known.claim != nil: // a resent request, whose reply was lost
		return storage.StartResult{Outcome: storage.StartGranted, Token: known.claim.token}
	case !live:
		return storage.StartResult{Outcome: storage.StartNotLive}
	case mine && known.State == jobs.Waiting && s.held(l, r):
		s.holdBack(known, now)
		return storage.StartResult{Outcome: storage.StartPaused}
	case mine && known.State == jobs.Waiting:
		known.loose = false
		return s.admit(l, known, r, now)
	case known != nil:
		return storage.StartResult{Outcome: storage.StartDuplicate}
	case s.stale(r.Firing.Job, r.Version):
		return storage.StartResult{Outcome: storage.StartStale}
	case s.firings[firingOf(r.Firing)] != nil:
		return storage.StartResult{Outcome: storage.StartDuplicate}
	case s.held(l, r):
		return storage.StartResult{Outcome: storage.StartPaused}
	}
	fresh := newRun(r.Run, r.Firing, now)
	fresh.session, fresh.Replica = session, l.Replica
	s.add(fresh)
	return s.admit(l, fresh, r, now)
}

// held reports whether the firing must not start now, because its job is paused or the session
// drains.
func (s *Store) held(l *session, r storage.StartRequest) bool {
	return r.Attempt <= 1 && (l.draining || r.Firing.Key == "" && s.pauseOver(r.Firing.Job) != nil)
}

// holdBack leaves a waiting run for another session to adopt. No run waits behind it.
func (s *Store) holdBack(r *run, now time.Time) {
	if p := s.pauseOver(r.Job); p != nil {
		s.unblock(r, nil, jobs.Waiting, now, now)
		r.Reason = reasons.Paused
		r.Detail = fmt.Sprintf("%s is paused by %s", p.Target, p.By)
	}
	r.wants, r.loose = nil, true
}

// admit grants the run its requests, or leaves it waiting.
func (s *Store) admit(l *session, r *run, q storage.StartRequest,
	now time.Time) storage.StartResult {
	since := r.WaitSince
	if since.IsZero() {
		since = whole(q.WaitSince)
	}
	if p := s.against(r, since, q.Requests); p != nil {
		blocker := new(s.blocker(p))
		r.reservedUntil = locking.Reserve(r.reservedUntil, now, q.Reserve)
		r.inTurn = p.Resource.Kind() == locking.KindGroup
		s.unblock(r, blocker, jobs.Waiting, since, now)
		r.WaitSince, r.Reason, r.Detail = since, p.Reason(), ""
		if r.wants == nil {
			r.wants = q.Requests
		}
		told := *blocker
		return storage.StartResult{Outcome: storage.StartBlocked, Blocker: &told, Reason: r.Reason,
			Queued: s.queued(r), Reserved: max(0, r.reservedUntil.Sub(now))}
	}
	s.token++
	c := &claim{token: s.token, run: r, session: l, granted: now, held: q.Requests}
	s.claims[c.token], l.claims[c.token] = c, r.ID
	if r.BlockedBy != nil {
		r.Waited = &storage.Wait{Blocker: *r.BlockedBy, Since: r.WaitSince}
	}
	s.unblock(r, nil, jobs.Running, now, now)
	s.settled(r, jobs.Running)
	r.claim, r.Token, r.Attempt = c, c.token, q.Attempt
	r.Reason, r.Detail = "", ""
	r.Rests = storage.EndRest(r.Rests, now)
	if r.StartedAt == nil {
		r.StartedAt = &now
	}
	return storage.StartResult{Outcome: storage.StartGranted, Token: c.token}
}

// blocker returns p as a blocker, with the root if p waits.
func (s *Store) blocker(p *rules.Contender) jobs.Blocker {
	b := *p.Blocker()
	if b.Waiting {
		b.Root = s.root(s.runs[p.Run])
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
			search.Add(contender(c.run, held, c.token))
		}
	}
	for _, other := range s.waiting {
		for _, wanted := range other.wanted() {
			p := contender(other, wanted, 0)
			if other != r && p.Older(r.ID, since) &&
				s.respects(other, wanted.Resource.Kind(), now) {
				search.Add(p)
			}
		}
	}
	return search.Blocker()
}

func contender(r *run, q locking.Request, token jobs.Token) *rules.Contender {
	return &rules.Contender{Request: q, Token: token, Since: r.WaitSince, Run: r.ID,
		Owner: ownerOf(r)}
}

func ownerOf(r *run) locking.Owner {
	return locking.Owner{Replica: r.Replica, Job: r.Job, Run: r.ID.String()}
}

// respects reports whether other runs wait behind a waiting run for a resource of that kind: its
// session is live and its position is reserved, or it is a triggered run that has not started,
// which keeps its position in its job in any session.
func (s *Store) respects(r *run, kind locking.Kind, now time.Time) bool {
	_, live := s.living(r.session)
	return live && r.reserves(kind, now) || r.manual() && kind == locking.KindJob
}

// manual reports whether the run was triggered and has not started.
func (r *run) manual() bool { return r.Key != "" && r.Recovery == 0 && r.Attempt == 0 }

// wanted returns the resources of a waiting run for which others wait behind it.
func (r *run) wanted() []locking.Request {
	if own, err := locking.Job(r.Job); err == nil && r.manual() && len(r.wants) == 0 {
		return []locking.Request{{Resource: own, Mode: locking.Exclusive}}
	}
	return r.wants
}

// reserves reports whether the position of a waiting run is reserved for a resource of that kind.
// Positions among the runs of one job, and among runs that wait for a slot of their group, always
// are.
func (r *run) reserves(kind locking.Kind, now time.Time) bool {
	return now.Before(r.reservedUntil) || kind == locking.KindJob ||
		r.inTurn && kind == locking.KindGroup
}

// maxChain bounds the search along waiting blockers, and so ends a cycle.
const maxChain = 8

// root returns the holder for which the waiter waits, directly or through other waiters. Each
// waiter's blocker is that of its last refusal. root returns zero if the holder has released its
// lock since.
func (s *Store) root(waiter *run) jobs.Root {
	for range maxChain {
		b := waiter.BlockedBy
		if b == nil {
			break
		}
		id, err := uuid.Parse(b.Holder.Run)
		if waiter = s.runs[id]; err != nil || waiter == nil {
			break
		}
		if !b.Waiting {
			if waiter.claim == nil {
				break
			}
			return jobs.Root{Resource: b.Resource, Holder: b.Holder}
		}
	}
	return jobs.Root{}
}

// queued reports whether another run has waited longer for the name of the job of r, which waits.
func (s *Store) queued(r *run) bool {
	wantsName := func(w locking.Request) bool { return w.Resource.Kind() == locking.KindJob }
	if !slices.ContainsFunc(r.wants, wantsName) {
		return false
	}
	for _, other := range s.waiting {
		_, live := s.living(other.session)
		older := contender(other, locking.Request{}, 0).Older(r.ID, r.WaitSince)
		if live && other != r && other.Job == r.Job && older &&
			slices.ContainsFunc(other.wants, wantsName) {
			return true
		}
	}
	return false
}
