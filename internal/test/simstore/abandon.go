package simstore

import "github.com/holdfast-dev/holdfast/jobs"

// endAbandoned ends what has waited for long for a job that has left the cron
// table: nobody adopts it any more.
func (s *Store) endAbandoned() {
	now := s.instant()
	for _, r := range s.waiting {
		_, owned := s.living(r.session)
		if j := s.jobs[r.Job]; owned || j == nil || !s.left(j) ||
			now.Sub(r.WaitSince) <= jobs.MaxAbsence {
			continue
		}
		state := jobs.Skipped
		if r.Attempt > 0 {
			state = jobs.Cancelled
		}
		s.settled(r, state)
		r.Reason, r.Detail, r.BlockedBy, r.FinishedAt = jobs.ReasonJobGone, jobs.JobGoneDetail, nil,
			&now
	}
}
