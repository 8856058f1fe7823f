package jobs

import "time"

// startOf returns when a scheduled time is to start: then, or later by its jitter.
func (e *entry) startOf(scheduledAt time.Time) time.Time {
	return scheduledAt.Add(e.Schedule.Delay(e.Name, scheduledAt))
}

// nextStart returns the first instant after t at which a scheduled time is to start, or
// the zero time.
func (e *entry) nextStart(t time.Time) time.Time {
	_, start := e.Schedule.NextStart(e.Name, t)
	return start
}

// overdue reports whether a scheduled time that nobody has started by now is a misfire.
func (e *entry) overdue(scheduledAt, now time.Time) bool {
	return now.Sub(e.startOf(scheduledAt)) > e.MisfireThreshold
}

// decidable returns the instant up to which each scheduled time after decided is old
// enough to be a misfire. Scheduled times are decided in their order: one whose delay goes
// on keeps back those behind it that had shorter ones.
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
