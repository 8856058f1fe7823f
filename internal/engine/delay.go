package engine

import "time"

// startOf returns when the firing of a scheduled time starts: at that time, or later by its jitter.
func (e *entry) startOf(scheduledAt time.Time) time.Time {
	return scheduledAt.Add(e.Schedule.Delay(e.Name, scheduledAt))
}

// nextStart returns the first start of a firing after t, or the zero time.
func (e *entry) nextStart(t time.Time) time.Time {
	_, start := e.Schedule.NextStart(e.Name, t)
	return start
}

// overdue reports whether a firing that has not started by now is a misfire.
func (e *entry) overdue(scheduledAt, now time.Time) bool {
	return now.Sub(e.startOf(scheduledAt)) > e.MisfireThreshold
}

// decidable returns the time up to which all scheduled times after decided are old enough to be
// misfires. Scheduled times are decided in order. So one with a pending delay also holds back later
// ones with shorter delays.
func (e *entry) decidable(decided, now time.Time) time.Time {
	until := now.Add(-e.MisfireThreshold).Truncate(time.Microsecond)
	most := e.Schedule.MaxDelay()
	if most <= 0 {
		return until
	}
	from := until.Add(-most)
	if decided.After(from) {
		from = decided
	}
	for scheduledAt := e.Schedule.Next(from); !scheduledAt.IsZero() &&
		!scheduledAt.After(until); scheduledAt = e.Schedule.Next(scheduledAt) {
		if e.startOf(scheduledAt).After(until) {
			return scheduledAt.Add(-time.Microsecond)
		}
	}
	return until
}
