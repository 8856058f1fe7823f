package simstore

import (
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// endAbandoned ends the waiting runs of jobs that have been absent from the cron table for too
// long. No replica adopts them.
func (s *Store) endAbandoned() {
	now := s.writeTime()
	for _, r := range s.waiting {
		_, owned := s.liveSession(r.Session)
		if j := s.jobs[r.Job]; owned || j == nil || !s.left(j) ||
			now.Sub(r.WaitSince) <= storage.MaxAbsence {
			continue
		}
		state := jobs.Skipped
		if r.Attempt > 0 {
			state = jobs.Cancelled
		}
		next := r.Run
		next.End(state, reasons.JobGone, storage.JobGoneDetail, now)
		s.update(r, next, now)
	}
}
