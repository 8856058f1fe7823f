package schedule

import "time"

// mostSteps bounds how many scheduled times of others are looked at for those of a job that follows
// them.
const mostSteps = 10_000

// Scheduled times returns the first scheduled times after from of one of several jobs, at most n of
// them. A job that follows others is due at those instants at which all of them are; it starts when
// they have succeeded. Of jobs that share few scheduled times some may be left out, and of those
// that wait for each other all.
func ScheduledTimes(schedules map[string]Schedule, job string, from time.Time, n int) []time.Time {
	steps := mostSteps
	var scheduledTimes []time.Time
	for len(scheduledTimes) < n {
		next := nextOf(schedules, job, from, len(schedules), &steps)
		if next.IsZero() {
			break
		}
		scheduledTimes = append(scheduledTimes, next)
		from = next
	}
	return scheduledTimes
}

// nextOf returns the first scheduled time after t, or the zero time. Depth bounds chains of jobs.
func nextOf(schedules map[string]Schedule, job string, t time.Time, depth int,
	steps *int) time.Time {
	s, known := schedules[job]
	switch {
	case !known || depth < 0:
		return time.Time{}
	case len(s.after) == 0:
		*steps--
		return s.Next(t)
	}
	for *steps > 0 {
		latest, agree := time.Time{}, true
		for i, name := range s.after {
			next := nextOf(schedules, name, t, depth-1, steps)
			if next.IsZero() {
				return next
			}
			agree = agree && (i == 0 || next.Equal(latest))
			if next.After(latest) {
				latest = next
			}
		}
		if _, excluded := s.ExcludedAt(latest); agree && !excluded {
			return latest
		}
		if agree {
			t = latest
		} else {
			t = latest.Add(-time.Nanosecond) // the others may be due then too
		}
	}
	return time.Time{}
}
