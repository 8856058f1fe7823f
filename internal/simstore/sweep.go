package simstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
)

// Sweep implements jobs.Upkeep.
func (s *Store) Sweep(ctx context.Context) (jobs.Swept, error) {
	if err := s.enter(ctx); err != nil {
		return jobs.Swept{}, err
	}
	defer s.mu.Unlock()
	var swept jobs.Swept
	now := s.now()
	var dead []*session
	for id, l := range s.sessions {
		switch {
		case l.ended == nil && !l.live(now):
			dead = append(dead, l)
		case l.ended != nil && l.ended.Before(now.Add(-sessionsKept)) && len(l.carried) == 0:
			delete(s.sessions, id)
		}
	}
	if len(dead) > 0 {
		s.bury(dead, &swept)
	}
	for id := range s.control.cancels {
		if r := s.runs[id]; r == nil || r.State.Final() {
			delete(s.control.cancels, id)
		}
	}
	s.settle()
	return swept, nil
}

// bury ends dead sessions, and what they ran.
func (s *Store) bury(dead []*session, swept *jobs.Swept) {
	slices.SortFunc(dead, func(a, b *session) int { return strings.Compare(a.Replica, b.Replica) })
	now := s.instant()
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
		return cmp.Or(strings.Compare(a.run.Job, b.run.Job), a.run.Due.Compare(b.run.Due))
	})
	for _, c := range claims {
		r := c.run
		s.give(c)
		r.State, r.FinishedAt, r.Reason, r.Detail = jobs.Lost, &now, jobs.ReasonSessionLost, "its replica stopped renewing its session"
		s.recover(r, now)
		swept.Lost = append(swept.Lost, jobs.LostRun{Record: r.record(), Held: c.held})
	}
}

// Adopt implements jobs.Upkeep.
func (s *Store) Adopt(ctx context.Context, session uuid.UUID, names []string, known []uuid.UUID, limit int) ([]jobs.Record, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	l, lives := s.living(session)
	if !lives || l.draining || len(s.waiting) == 0 {
		return nil, nil
	}
	var own, free []*run
	for _, r := range s.waiting {
		owner, owned := s.living(r.session)
		switch {
		case slices.Contains(known, r.ID), r.Key == "" && r.Attempt <= 1 && s.pauseOver(r.Job) != nil:
		case r.session == session:
			own = append(own, r)
		case !owned, owner.draining && r.Attempt <= 1:
			free = append(free, r)
		}
	}
	if len(own)+len(free) == 0 {
		return nil, nil
	}
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		wanted[name] = true
	}
	var adopted []jobs.Record
	for i, list := range [][]*run{own, free} {
		list = slices.DeleteFunc(list, func(r *run) bool { return !wanted[r.Job] })
		slices.SortFunc(list, func(a, b *run) int {
			return cmp.Or(a.WaitSince.Compare(b.WaitSince), strings.Compare(a.ID.String(), b.ID.String()))
		})
		if i == 1 {
			list = list[:min(len(list), max(limit, 0))]
		}
		for _, r := range list {
			if i == 1 {
				r.session, r.Replica, r.wants = session, l.Replica, nil
			}
			adopted = append(adopted, r.record())
		}
	}
	return adopted, nil
}

// CheckMisfires implements jobs.Upkeep. find is called outside the
// transaction: it may take long.
func (s *Store) CheckMisfires(ctx context.Context, checks []jobs.MisfireCheck, find func(string, jobs.Cursor) []jobs.Misfired) (map[string]time.Time, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	if s.checking {
		s.mu.Unlock()
		return nil, nil
	}
	s.checking = true
	checks = slices.SortedFunc(slices.Values(checks), func(a, b jobs.MisfireCheck) int { return strings.Compare(a.Job, b.Job) })
	cursors := map[string]time.Time{}
	var behind []jobs.MisfireCheck
	var given []jobs.Cursor
	for _, c := range checks {
		j := s.checked(c)
		if j == nil {
			continue
		}
		cursors[c.Job] = j.checkedUntil
		if j.checkedUntil.Before(c.Due) {
			behind = append(behind, c)
			given = append(given, jobs.Cursor{CheckedUntil: j.checkedUntil, Started: j.started(c.Until)})
		}
	}
	s.mu.Unlock()
	found := make([][]jobs.Misfired, len(behind))
	for i, c := range behind {
		found[i] = find(c.Job, given[i])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checking = false
	if s.down || s.closed {
		return nil, fmt.Errorf("misfire check: %w", jobs.ErrUnavailable)
	}
	if len(behind) == 0 {
		return cursors, nil
	}
	now := s.instant()
	for i, c := range behind {
		delete(cursors, c.Job)
		if j := s.checked(c); j != nil {
			if until := whole(c.Until); until.After(j.checkedUntil) {
				j.checkedUntil = until
			}
			cursors[c.Job] = j.checkedUntil
			s.misfired(found[i], now)
		}
	}
	return cursors, nil
}

// checked returns the check's job, if its definition is in force.
func (s *Store) checked(c jobs.MisfireCheck) *job {
	if j := s.jobs[c.Job]; j != nil && j.version == c.Version && j.version > 0 {
		return j
	}
	return nil
}

// started returns the dues from the cursor until then that have a run.
func (j *job) started(until time.Time) []time.Time {
	from, _ := slices.BinarySearchFunc(j.dues, j.checkedUntil.Add(time.Microsecond), time.Time.Compare)
	to, _ := slices.BinarySearchFunc(j.dues, until.Add(time.Microsecond), time.Time.Compare)
	return slices.Clone(j.dues[from:max(from, to)])
}

func (s *Store) misfired(found []jobs.Misfired, now time.Time) {
	for _, m := range found {
		if s.firings[firingOf(m.Firing)] != nil {
			continue
		}
		r := newRun(m.Run, m.Firing, now)
		r.State, r.Reason, r.Detail = m.State, m.Reason, jobs.PlainText(m.Detail)
		if m.State == jobs.Waiting {
			r.WaitSince = now
		} else {
			r.FinishedAt = &now
		}
		s.add(r)
	}
}
