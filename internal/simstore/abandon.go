package simstore

import (
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// endAbandoned ends what waits for a job that nobody has carried for long, if
// some session has been there all the time.
func (s *Store) endAbandoned() {
	now := s.instant()
	long := now.Add(-jobs.AbandonedAfter)
	for _, r := range s.waiting {
		_, owned := s.living(r.session)
		switch {
		case s.isCarried(r.Job):
			r.left = time.Time{}
		case r.left.IsZero():
			r.left = now
		case !owned && !r.left.After(long) && s.liveSince(long):
			state := jobs.Skipped
			if r.Attempt > 0 {
				state = jobs.Cancelled
			}
			s.settled(r, state)
			r.Reason, r.Detail, r.BlockedBy, r.FinishedAt = jobs.ReasonJobGone, jobs.AbandonedDetail, nil, &now
		}
	}
}

// isCarried reports whether a session carries the job, in whichever version.
func (s *Store) isCarried(job string) bool {
	for _, l := range s.sessions {
		if _, has := l.carried[job]; has {
			return true
		}
	}
	return false
}

// liveSince reports whether a session lives that did at that time.
func (s *Store) liveSince(at time.Time) bool {
	for _, l := range s.sessions {
		if l.live(s.now()) && !l.started.After(at) {
			return true
		}
	}
	return false
}

// Age makes sessions, and what was noticed of runs that wait, older.
func (s *Store) Age(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.sessions {
		l.started = l.started.Add(-by)
	}
	for _, r := range s.waiting {
		if !r.left.IsZero() {
			r.left = r.left.Add(-by)
		}
	}
}
