package engine

import (
	"iter"

	"github.com/holdfast-dev/holdfast/jobs"
)

// Configured returns a job of the configuration; false for added jobs and unknown names.
func (s *Scheduler) Configured(name string) (jobs.Job, bool) {
	if e := s.table.get(name); e != nil && e.spec == nil {
		return e.Job, true
	}
	return jobs.Job{}, false
}

// AllConfigured returns the jobs of the configuration, by name. They must not be changed.
func (s *Scheduler) AllConfigured() iter.Seq[*jobs.Job] {
	return func(yield func(*jobs.Job) bool) {
		for _, e := range s.table.all() {
			if e.spec == nil && !yield(&e.Job) {
				return
			}
		}
	}
}
