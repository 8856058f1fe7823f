package admin

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// timeView is a time relative to now, both by the store's clock.
type timeView struct {
	now time.Time
	at  time.Time
}

// newTimeView accepts a time.Time or *time.Time.
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
	return timeView{}, fmt.Errorf("%T is not a time", at)
}

// Known reports whether the time is set.
func (m timeView) Known() bool { return !m.at.IsZero() }

// ISO formats the time for machines.
func (m timeView) ISO() string { return m.at.Format(time.RFC3339Nano) }

// Exact formats the full time for people.
func (m timeView) Exact() string { return m.at.Format("2006-01-02 15:04:05.999 UTC") }

// Clock formats the time of day, with the date if it is not today.
func (m timeView) Clock() string {
	if m.at.Format(time.DateOnly) == m.now.UTC().Format(time.DateOnly) {
		return m.at.Format(time.TimeOnly)
	}
	return m.at.Format(time.DateTime)
}

// Passed returns how long ago the time was.
func (m timeView) Passed() string { return span(m.now.Sub(m.at)) }

// Left returns how long it is until the time.
func (m timeView) Left() string { return span(m.at.Sub(m.now)) }

// Relative returns "12 s ago" or "in 3 min".
func (m timeView) Relative() string {
	if m.at.After(m.now) {
		return "in " + m.Left()
	}
	return m.Passed() + " ago"
}

// Over reports whether the time has passed.
func (m timeView) Over() bool { return !m.at.After(m.now) }

// ended returns when a run ended, or was recorded if it never started.
func ended(r jobs.Record) time.Time {
	if r.FinishedAt != nil {
		return *r.FinishedAt
	}
	return r.CreatedAt
}

// lasted returns how long a run ran, or "" if it has not ended.
func lasted(r jobs.Record) string {
	length, ended := r.Took()
	if !ended {
		return ""
	}
	return took(length)
}
