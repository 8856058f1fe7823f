package jobs

import "time"

// startOf returns when a due is to start: then, or later by its jitter.
func (e *entry) startOf(due time.Time) time.Time { return due.Add(e.Schedule.Delay(e.Name, due)) }

// nextStart returns the first instant after t at which a due is to start, or
// the zero time.
func (e *entry) nextStart(t time.Time) time.Time {
	_, start := e.Schedule.NextStart(e.Name, t)
	return start
}

// overdue reports whether a due that nobody has started by now is a misfire.
func (e *entry) overdue(due, now time.Time) bool { return now.Sub(e.startOf(due)) > e.MisfireThreshold }

// decidable returns the instant up to which each due after decided is old
// enough to be a misfire. Dues are decided in their order: one whose delay goes
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
	for due := e.Schedule.Next(from); !due.IsZero() && !due.After(until); due = e.Schedule.Next(due) {
		if e.startOf(due).After(until) {
			return due.Add(-time.Microsecond)
		}
	}
	return until
}
