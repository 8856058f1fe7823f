package explain

import (
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// maxSteps is the most scheduled times of dependencies that are compared to find a common one.
const maxSteps = 1000

// scheduledTimes finds the scheduled times of jobs, including those of dependents.
type scheduledTimes struct {
	job  func(name string) (jobs.Job, bool)
	deep int // the current depth of dependencies; bounded, because the jobs may form a cycle
	// found has the answers so far, because many dependents may share a dependency.
	found map[neighbour]time.Time
}

// neighbour is a question for the scheduled time of a job before or after a time.
type neighbour struct {
	job    string
	at     int64 // in nanoseconds since 1970
	before bool
}

func newScheduledTimes(job func(name string) (jobs.Job, bool)) scheduledTimes {
	return scheduledTimes{job: job, found: map[neighbour]time.Time{}}
}

// deeper returns d for the dependencies of its job.
func (d scheduledTimes) deeper() scheduledTimes {
	d.deep++
	return d
}

// once returns what find returns, and calls it once for each question.
func (d scheduledTimes) once(n neighbour, find func() time.Time) time.Time {
	at, known := d.found[n]
	if !known {
		at = find()
		d.found[n] = at
	}
	return at
}

const deepest = 50

// NextScheduledAt returns the job's first scheduled time after t, or the zero time. For a
// dependent, that is the first time that all its dependencies share and that its calendars do not
// exclude. The search ends after a thousand scheduled times of dependencies.
func NextScheduledAt(find func(name string) (jobs.Job, bool), job jobs.Job,
	t time.Time) time.Time {
	return newScheduledTimes(find).next(job, t)
}

// next returns the job's first scheduled time after t, or the zero time.
func (d scheduledTimes) next(job jobs.Job, t time.Time) time.Time {
	if len(job.Schedule.After()) == 0 {
		return job.Schedule.Next(t)
	}
	return d.once(neighbour{job.Name, t.UnixNano(), false}, func() time.Time {
		return d.common(job, t, func(dependency jobs.Job, at time.Time) time.Time {
			return d.deeper().next(dependency, at.Add(-time.Nanosecond))
		}, func(a, b time.Time) bool { return a.After(b) }, time.Second)
	})
}

// prev returns the job's last scheduled time before t, or the zero time.
func (d scheduledTimes) prev(job jobs.Job, t time.Time) time.Time {
	if len(job.Schedule.After()) == 0 {
		return job.Schedule.Prev(t)
	}
	return d.once(neighbour{job.Name, t.UnixNano(), true}, func() time.Time {
		return d.common(job, t, func(dependency jobs.Job, at time.Time) time.Time {
			return d.deeper().prev(dependency, at.Add(time.Nanosecond))
		}, func(a, b time.Time) bool { return a.Before(b) }, -time.Second)
	})
}

// common returns the nearest time beyond t that all dependencies of job share and that its
// calendars do not exclude. find returns the scheduled time of a dependency at a time, or the
// nearest one beyond.
func (d scheduledTimes) common(job jobs.Job, t time.Time, find func(jobs.Job, time.Time) time.Time,
	beyond func(a, b time.Time) bool, step time.Duration) time.Time {
	if d.deep > deepest {
		return time.Time{}
	}
	at, same := beyondSecond(t, step), 0
	after := job.Schedule.After()
	for i := 0; i < maxSteps; i++ {
		dependency, known := d.job(after[i%len(after)])
		if !known {
			return time.Time{}
		}
		scheduledAt := find(dependency, at)
		switch {
		case scheduledAt.IsZero():
			return scheduledAt
		case beyond(scheduledAt, at):
			at, same = scheduledAt, 1
		default:
			same++
		}
		if same < len(after) {
			continue
		}
		if _, excluded := job.Schedule.ExcludedAt(at); !excluded {
			return at
		}
		at, same = at.Add(step), 0
	}
	return time.Time{}
}

// beyondSecond returns the nearest whole second beyond t.
func beyondSecond(t time.Time, step time.Duration) time.Time {
	whole := t.Truncate(time.Second).UTC()
	if step < 0 && whole.Before(t) {
		return whole
	}
	return whole.Add(step)
}
