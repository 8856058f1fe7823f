package simstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Sweep implements storage.Upkeep.
func (s *Store) Sweep(ctx context.Context) (storage.Swept, error) {
	if err := s.enter(ctx); err != nil {
		return storage.Swept{}, err
	}
	defer s.mu.Unlock()
	var swept storage.Swept
	now := s.now()
	var dead []*session
	for id, l := range s.sessions {
		left := l.expires.Sub(now)
		switch {
		case l.live(now):
			if swept.NextExpiry == 0 || left < swept.NextExpiry {
				swept.NextExpiry = left
			}
		case l.ended == nil && !l.live(now):
			dead = append(dead, l)
		case l.ended != nil && now.Sub(*l.ended) > storage.SessionsKept && len(l.carried) == 0:
			if !l.removed {
				s.past = append(s.past, l.replicaSession())
			}
			delete(s.sessions, id)
		}
	}
	s.past = slices.DeleteFunc(s.past, func(r storage.ReplicaSession) bool {
		return now.Sub(*r.EndedAt) > storage.ReplicaSessionsKept
	})
	if len(dead) > 0 {
		s.bury(dead, &swept)
	}
	s.cancelLeft()
	s.endAbandoned()
	for id := range s.control.cancels {
		if r := s.runs[id]; r == nil || r.State.Final() {
			delete(s.control.cancels, id)
		}
	}
	s.settle()
	return swept, nil
}

// cancelLeft ends the waiting runs of removed jobs. No replica adopts them.
func (s *Store) cancelLeft() {
	for _, r := range s.waiting {
		if _, owned := s.liveSession(r.Session); owned || s.jobs[r.Job] == nil ||
			s.jobs[r.Job].version >= 0 {
			continue
		}
		s.cancel(r, &actionTx{now: s.writeTime()}, "its job was removed")
	}
}

// bury ends dead sessions and their runs.
func (s *Store) bury(dead []*session, swept *storage.Swept) {
	slices.SortFunc(dead, func(a, b *session) int { return strings.Compare(a.Replica, b.Replica) })
	now := s.writeTime()
	var claims []*claim
	for _, l := range dead {
		for token := range l.claims {
			claims = append(claims, s.claims[token])
		}
		l.ended = &now
		if l.expires.After(now) {
			l.expires = now
		}
		swept.Sessions = append(swept.Sessions, l.Replica)
	}
	slices.SortFunc(claims, func(a, b *claim) int {
		return cmp.Or(strings.Compare(a.run.Job, b.run.Job),
			a.run.ScheduledAt.Compare(b.run.ScheduledAt))
	})
	for _, c := range claims {
		r := c.run
		s.give(c)
		r.Lose(now)
		s.countEnded(r)
		s.recover(r, now)
		swept.Lost = append(swept.Lost, storage.LostRun{Record: r.Record, Held: c.held})
	}
}

// Adopt implements storage.Upkeep.
func (s *Store) Adopt(ctx context.Context, session uuid.UUID,
	a storage.Adoption) ([]storage.Record, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	l, live := s.liveSession(session)
	if !live || !l.adopts() || len(s.waiting) == 0 {
		return nil, nil
	}
	asked := map[string]bool{}
	for _, j := range a.Jobs {
		asked[j.Name] = true
	}
	var own, free []storage.Record
	oldest := map[string]time.Time{}
	for _, r := range s.waiting {
		if first, found := oldest[r.Job]; rules.IsScheduled(r.Record) && !r.StartsLater(s.now()) &&
			(!found || r.ScheduledAt.Before(first)) {
			oldest[r.Job] = r.ScheduledAt
		}
		switch {
		case !asked[r.Job] || slices.Contains(a.Known, r.ID), r.StartsLater(s.now()),
			r.ObeysPauses() && r.Attempt <= 1 && s.pauseOver(r.Job) != nil:
		case r.Session == session:
			own = append(own, r.Record)
		case !s.keeps(r.Session), s.sessions[r.Session].draining && r.Attempt <= 1:
			free = append(free, r.Record)
		}
	}
	slices.SortFunc(own, func(a, b storage.Record) int {
		return cmp.Or(a.WaitSince.Compare(b.WaitSince), bytes.Compare(a.ID[:], b.ID[:]))
	})
	adopted := own
	for _, id := range rules.Adopted(free, oldest, a, s.now()) {
		r := s.runs[id]
		r.Session, r.Replica, r.wants = session, l.Replica, nil
		adopted = append(adopted, r.Record)
	}
	return adopted, nil
}

// hasAdoptable reports whether the session may adopt runs, if it knows none.
func (s *Store) hasAdoptable(session uuid.UUID) bool {
	for _, r := range s.waiting {
		if !r.StartsLater(s.now()) && (r.Session == session || !s.keeps(r.Session) ||
			s.sessions[r.Session].draining) {
			return true
		}
	}
	return false
}

// CheckMisfires implements storage.Upkeep. It calls find outside the transaction, because that may
// take long.
func (s *Store) CheckMisfires(ctx context.Context, checks []storage.MisfireCheck,
	find func(string, storage.Cursor) []storage.Misfired) (map[string]time.Time, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	if s.checking {
		s.mu.Unlock()
		return nil, nil
	}
	s.checking = true
	checks = slices.SortedFunc(slices.Values(checks), func(a, b storage.MisfireCheck) int {
		return strings.Compare(a.Job, b.Job)
	})
	cursors := map[string]time.Time{}
	pauses, up := s.pauses(), s.spans()
	var behind []storage.MisfireCheck
	var given []storage.Cursor
	for _, c := range checks {
		j := s.checked(c)
		if j == nil {
			continue
		}
		cursors[c.Job] = j.checkedUntil
		absence := j.absence
		if j.absent() {
			absence = storage.Span{}
		}
		cursor := c.Cursor(j.checkedUntil, s.now(), pauses, up, absence)
		if cursor.Decided(c.ScheduledAt) {
			continue
		}
		c.Until = cursor.Until
		cursor.Started, cursor.Waits = j.started(cursor.Last), s.waits(c.Job)
		behind, given = append(behind, c), append(given, cursor)
	}
	s.mu.Unlock()
	found := make([][]storage.Misfired, len(behind))
	for i, c := range behind {
		found[i] = find(c.Job, given[i])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checking = false
	if s.down || s.closed {
		return nil, fmt.Errorf("misfire check: %w", storage.ErrUnavailable)
	}
	if len(behind) == 0 {
		return cursors, nil
	}
	now := s.writeTime()
	for i, c := range behind {
		delete(cursors, c.Job)
		if j := s.checked(c); j != nil {
			if until := rules.Whole(c.Until); until.After(j.checkedUntil) {
				j.checkedUntil = until
			}
			cursors[c.Job] = j.checkedUntil
			for _, m := range s.misfired(found[i], now) {
				s.decisions = append(s.decisions, Decision{At: now, Misfired: m})
			}
		}
	}
	return cursors, nil
}

// pauses returns all pauses, the oldest first.
func (s *Store) pauses() []storage.Pause {
	all := slices.Clone(s.control.pauses)
	slices.SortStableFunc(all, func(a, b storage.Pause) int { return a.At.Compare(b.At) })
	return all
}

// spans returns the intervals in which replicas were live.
func (s *Store) spans() []storage.Span {
	var up []storage.Span
	for _, l := range s.sessions {
		span := storage.Span{From: l.started, Until: l.heartbeat}
		if l.live(s.now()) {
			span.Until = l.expires
		}
		up = append(up, span)
	}
	return up
}

// waits returns the latest scheduled time of the job's scheduled runs that wait and have not
// started.
func (s *Store) waits(name string) (scheduledAt time.Time) {
	for _, r := range s.waiting {
		if r.Job == name && r.Key == "" && r.Attempt == 0 && r.ScheduledAt.After(scheduledAt) {
			scheduledAt = r.ScheduledAt
		}
	}
	return scheduledAt
}

// checked returns the check's job, if its definition is active.
func (s *Store) checked(c storage.MisfireCheck) *job {
	if j := s.jobs[c.Job]; j != nil && j.version == c.Version && j.version > 0 {
		return j
	}
	return nil
}

// started returns the scheduled times from the cursor until then that have a run.
func (j *job) started(until time.Time) []time.Time {
	from, _ := slices.BinarySearchFunc(j.scheduledTimes, j.checkedUntil.Add(time.Microsecond),
		time.Time.Compare)
	to, _ := slices.BinarySearchFunc(j.scheduledTimes, until.Add(time.Microsecond),
		time.Time.Compare)
	return slices.Clone(j.scheduledTimes[from:max(from, to)])
}

// misfired records the misfires whose firings have no run yet, and returns them.
func (s *Store) misfired(found []storage.Misfired, now time.Time) (written []storage.Misfired) {
	for _, m := range found {
		if s.firings[firingOf(m.Firing)] != nil {
			continue
		}
		s.add(rules.NewMisfired(m, now))
		written = append(written, m)
	}
	return written
}

// Decision is the record of a misfire check on one scheduled time.
type Decision struct {
	At time.Time // the same for all of one check
	storage.Misfired
}

// Decisions returns the records of all misfire checks, the oldest first.
func (s *Store) Decisions() []Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.decisions)
}

// ExpireDisconnected returns nothing: simulated replicas have no connections.
func (s *Store) ExpireDisconnected(context.Context, uuid.UUID) (storage.Disconnected, error) {
	return storage.Disconnected{AfterHeartbeat: true}, nil
}
