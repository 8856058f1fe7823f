package admin

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// timeView is an instant as seen from now, both by the store's clock.
type timeView struct {
	now time.Time
	at  time.Time
}

// newTimeView takes a time.Time or *time.Time, as templates have them.
func newTimeView(now time.Time, at any) (timeView, error) {
	switch at := at.(type) {
	case time.Time:
		return timeView{now, at.UTC()}, nil
	case *time.Time:
		if at != nil {
			return timeView{now, at.UTC()}, nil
		}
		return timeView{now: now}, nil
	}
	return timeView{}, fmt.Errorf("%T is no instant", at)
}

// Known reports whether there is an instant at all.
func (m timeView) Known() bool { return !m.at.IsZero() }

// ISO is the instant for machines.
func (m timeView) ISO() string { return m.at.Format(time.RFC3339Nano) }

// Exact is the instant for people, whole.
func (m timeView) Exact() string { return m.at.Format("2006-01-02 15:04:05.999 UTC") }

// Clock is the time of day, with the date where that is not today.
func (m timeView) Clock() string {
	if m.at.Format(time.DateOnly) == m.now.UTC().Format(time.DateOnly) {
		return m.at.Format(time.TimeOnly)
	}
	return m.at.Format(time.DateTime)
}

// Passed is how long ago the instant was.
func (m timeView) Passed() string { return span(m.now.Sub(m.at)) }

// Left is how long it is until the instant.
func (m timeView) Left() string { return span(m.at.Sub(m.now)) }

// Relative is "12 s ago" or "in 3 min".
func (m timeView) Relative() string {
	if m.at.After(m.now) {
		return "in " + m.Left()
	}
	return m.Passed() + " ago"
}

// Over reports whether the instant has passed.
func (m timeView) Over() bool { return !m.at.After(m.now) }

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
