package schedule

import "time"

// Schedule says when a job is due. The zero Schedule is never due: the job is
// only triggered. Schedules are immutable and may be used concurrently.
type Schedule struct {
	text string
	zone *time.Location
	rule rule
}

// rule finds dues.
type rule interface {
	// next returns the first due after t, or false when there is none.
	next(t time.Time) (time.Time, bool)
}

// lastYear is the last year with dues: later ones have no RFC 3339 form.
const lastYear = 9999

// Next returns the first due after t, or the zero time when there is none. Dues
// are whole seconds in UTC from the years 1 to 9999, and may be compared with ==.
func (s Schedule) Next(t time.Time) time.Time {
	if s.rule == nil || t.UTC().Year() > lastYear {
		return time.Time{}
	}
	if t.Before(time.Time{}) {
		t = time.Time{}
	}
	due, ok := s.rule.next(t)
	if !ok || due.UTC().Year() > lastYear {
		return time.Time{}
	}
	return due.UTC()
}

// Upcoming returns the first n dues after from, or as many as there are. They
// are in UTC; to show them, convert them to the schedule's Zone.
func (s Schedule) Upcoming(from time.Time, n int) []time.Time {
	var dues []time.Time
	for len(dues) < n {
		from = s.Next(from)
		if from.IsZero() {
			break
		}
		dues = append(dues, from)
	}
	return dues
}

// String returns the schedule in the form that ParseText reads: cron as it was
// written, and "" for the zero Schedule.
func (s Schedule) String() string { return s.text }

// Zone returns the zone in which the schedule is read; UTC for the zero Schedule.
func (s Schedule) Zone() *time.Location {
	if s.zone == nil {
		return time.UTC
	}
	return s.zone
}
