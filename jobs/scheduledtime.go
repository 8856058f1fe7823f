package jobs

import "time"

// maxSteps bounds how many scheduled times of jobs that are followed are compared for one
// that they have in common.
const maxSteps = 1000

// scheduled times finds the scheduled times of jobs, of those that follow others too.
type scheduledTimes struct {
	job  func(name string) (Job, bool)
	deep int // how far jobs follow each other; circles are no tables
}

const deepest = 50

// NextScheduledAt returns the job's first scheduled time after t, or the zero time. That of a job
// which follows others is the first that all of them have, as job tells of them,
// and that its calendars let pass; looked for among a thousand.
func NextScheduledAt(job func(name string) (Job, bool), of Job, t time.Time) time.Time {
	return scheduledTimes{job: job}.next(of, t)
}

// next returns the job's first scheduled time after t, or the zero time.
func (d scheduledTimes) next(job Job, t time.Time) time.Time {
	if len(job.Schedule.After()) == 0 {
		return job.Schedule.Next(t)
	}
	return d.common(job, t, func(followed Job, at time.Time) time.Time {
		return scheduledTimes{d.job, d.deep + 1}.next(followed, at.Add(-time.Nanosecond))
	}, func(a, b time.Time) bool { return a.After(b) }, time.Second)
}

// prev returns the job's last scheduled time before t, or the zero time.
func (d scheduledTimes) prev(job Job, t time.Time) time.Time {
	if len(job.Schedule.After()) == 0 {
		return job.Schedule.Prev(t)
	}
	return d.common(job, t, func(followed Job, at time.Time) time.Time {
		return scheduledTimes{d.job, d.deep + 1}.prev(followed, at.Add(time.Nanosecond))
	}, func(a, b time.Time) bool { return a.Before(b) }, -time.Second)
}

// common returns the nearest due beyond t that all jobs that job follows have,
// and that its calendars let pass. find returns a followed job's due at an
// instant, or the nearest beyond.
func (d scheduledTimes) common(job Job, t time.Time, find func(Job, time.Time) time.Time,
	beyond func(a, b time.Time) bool, step time.Duration) time.Time {
	if d.deep > deepest {
		return time.Time{}
	}
	at, same := beyondSecond(t, step), 0
	after := job.Schedule.After()
	for i := 0; i < maxSteps; i++ {
		followed, known := d.job(after[i%len(after)])
		if !known {
			return time.Time{}
		}
		scheduledAt := find(followed, at)
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
