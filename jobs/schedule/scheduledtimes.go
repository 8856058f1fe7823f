package schedule

import "time"

// mostSteps is the most scheduled times of dependencies that are visited to find those of a
// dependent.
const mostSteps = 10_000

// ScheduledTimes returns the first n scheduled times of the job that are later than start, or all
// if there are fewer. schedules has the schedules of all jobs, by name. The scheduled times of a
// dependent are those that all its dependencies share. The dependent is due when its dependencies
// have succeeded. If dependencies share few scheduled times, some may be left out. Jobs that depend
// on each other have no scheduled times.
func ScheduledTimes(schedules map[string]Schedule, job string, start time.Time, n int) []time.Time {
	steps := mostSteps
	var scheduledTimes []time.Time
	for len(scheduledTimes) < n {
		next := nextOf(schedules, job, start, len(schedules), &steps)
		if next.IsZero() {
			break
		}
		scheduledTimes = append(scheduledTimes, next)
		start = next
	}
	return scheduledTimes
}

// nextOf returns the first scheduled time after t, or the zero time. depth limits chains of
// dependencies.
func nextOf(schedules map[string]Schedule, job string, t time.Time, depth int,
	steps *int) time.Time {
	s, known := schedules[job]
	switch {
	case !known || depth < 0:
		return time.Time{}
	case len(s.After()) == 0:
		*steps--
		return s.Next(t)
	}
	for *steps > 0 {
		latest, agree := time.Time{}, true
		for i, name := range s.After() {
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
