package admin

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// moment is an instant as seen from now, both by the store's clock.
type moment struct {
	now time.Time
	at  time.Time
}

// newMoment takes a time.Time or *time.Time, as templates have them.
func newMoment(now time.Time, at any) (moment, error) {
	switch at := at.(type) {
	case time.Time:
		return moment{now, at.UTC()}, nil
	case *time.Time:
		if at != nil {
			return moment{now, at.UTC()}, nil
		}
		return moment{now: now}, nil
	}
	return moment{}, fmt.Errorf("%T is no instant", at)
}

// Known reports whether there is an instant at all.
func (m moment) Known() bool { return !m.at.IsZero() }

// ISO is the instant for machines.
func (m moment) ISO() string { return m.at.Format(time.RFC3339Nano) }

// Exact is the instant for people, whole.
func (m moment) Exact() string { return m.at.Format("2006-01-02 15:04:05.999 UTC") }

// Clock is the time of day, with the date where that is not today.
func (m moment) Clock() string {
	if m.at.Format(time.DateOnly) == m.now.UTC().Format(time.DateOnly) {
		return m.at.Format(time.TimeOnly)
	}
	return m.at.Format(time.DateTime)
}

// Passed is how long ago the instant was.
func (m moment) Passed() string { return span(m.now.Sub(m.at)) }

// Left is how long it is until the instant.
func (m moment) Left() string { return span(m.at.Sub(m.now)) }

// Relative is "12 s ago" or "in 3 min".
func (m moment) Relative() string {
	if m.at.After(m.now) {
		return "in " + m.Left()
	}
	return m.Passed() + " ago"
}

// Over reports whether the instant has passed.
func (m moment) Over() bool { return !m.at.After(m.now) }

// ended is when a run ended, or was written down where it never started.
func ended(r jobs.Record) time.Time {
	if r.FinishedAt != nil {
		return *r.FinishedAt
	}
	return r.CreatedAt
}

// lasted is how long a run ran, "" where it did not.
func lasted(r jobs.Record) string {
	length, ended := r.Took()
	if !ended {
		return ""
	}
	return took(length)
}
