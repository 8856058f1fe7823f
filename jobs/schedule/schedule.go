package schedule

import "time"

// Schedule says when a job is due. The zero Schedule is never due: the job is
// only triggered. Schedules are immutable and may be used concurrently.
type Schedule struct {
	text string
	zone *time.Location
	next func(time.Time) time.Time
}

// Next returns the first due after t, or the zero time when there is none.
func (s Schedule) Next(t time.Time) time.Time {
	if s.next == nil {
		return time.Time{}
	}
	return s.next(t)
}

// String returns the schedule as it was written.
func (s Schedule) String() string { return s.text }

// Zone returns the zone in which the schedule is read; UTC for the zero Schedule.
func (s Schedule) Zone() *time.Location {
	if s.zone == nil {
		return time.UTC
	}
	return s.zone
}
