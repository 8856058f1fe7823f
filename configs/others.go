package configs

import (
	"iter"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/locking"
)

// OtherJob is what ParseJob needs of a job of the configuration to check another job against it.
type OtherJob struct {
	Name     string
	Schedule schedule.Schedule
	Requests []locking.Request
}

// WithoutJobs returns a copy of c without its jobs, for a program that has them in a smaller form.
// ParseJob then checks a job against the jobs of the iterator others, which may be called
// concurrently.
func (c *Config) WithoutJobs(others iter.Seq[OtherJob]) *Config {
	copied := *c
	copied.Jobs, copied.others = nil, others
	return &copied
}

// otherJobs returns the jobs against which ParseJob checks a job.
func (c *Config) otherJobs() iter.Seq[OtherJob] {
	if c.others != nil {
		return c.others
	}
	return func(yield func(OtherJob) bool) {
		for i := range c.Jobs {
			j := &c.Jobs[i]
			if !yield(OtherJob{j.Name, j.Schedule, j.Requests}) {
				return
			}
		}
	}
}
