package words

import (
	"fmt"
	"regexp"
	"time"
)

// Time is a time relative to now, both by the store's clock.
type Time struct {
	now time.Time
	at  time.Time
}

// At returns a time relative to now.
func At(now, at time.Time) Time { return Time{now, at.UTC()} }

// NewTime accepts a time.Time or *time.Time.
func NewTime(now time.Time, at any) (Time, error) {
	switch at := at.(type) {
	case time.Time:
		return At(now, at), nil
	case *time.Time:
		if at != nil {
			return At(now, *at), nil
		}
		return Time{now: now}, nil
	}
	return Time{}, fmt.Errorf("%T is not a time", at)
}

// Known reports whether the time is set.
func (m Time) Known() bool { return !m.at.IsZero() }

// ISO formats the time for machines.
func (m Time) ISO() string { return m.at.Format(time.RFC3339Nano) }

// Exact formats the full time for people.
func (m Time) Exact() string { return m.at.Format("2006-01-02 15:04:05.999 UTC") }

// Clock formats the time of day, with the date if it is not today.
func (m Time) Clock() string {
	if m.at.Format(time.DateOnly) == m.now.UTC().Format(time.DateOnly) {
		return m.at.Format(time.TimeOnly)
	}
	return m.at.Format(time.DateTime)
}

// In formats the time of day in a zone, with the date if it is not today there. It returns "" if
// this version does not know the zone.
func (m Time) In(zone string) string {
	location, err := time.LoadLocation(zone)
	if err != nil {
		return ""
	}
	at := m.at.In(location)
	if at.Format(time.DateOnly) == m.now.In(location).Format(time.DateOnly) {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}

// Passed returns how long ago the time was.
func (m Time) Passed() string { return Span(m.now.Sub(m.at)) }

// Left returns how long it is until the time.
func (m Time) Left() string { return Span(m.at.Sub(m.now)) }

// Relative returns "12 s ago" or "in 3 min".
func (m Time) Relative() string {
	if m.at.After(m.now) {
		return "in " + m.Left()
	}
	return m.Passed() + " ago"
}

// Over reports whether the time has passed.
func (m Time) Over() bool { return !m.at.After(m.now) }

// UTC formats a time so that the page's script finds and localizes it.
func UTC(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// zonedTime is a time with the abbreviation of its zone.
var zonedTime = regexp.MustCompile(
	`\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ([A-Z]{2,5}|[+-]\d\d(\d\d)?)\b`)

// ZonedToUTC returns a text whose times in the zone have the form of UTC. An abbreviation that the
// zone does not have, such as that of another zone, stays with its time.
func ZonedToUTC(s string, zone *time.Location) string {
	const layout = "2006-01-02 15:04:05 MST"
	return zonedTime.ReplaceAllStringFunc(s, func(text string) string {
		at, err := time.ParseInLocation(layout, text, zone)
		if err != nil || at.In(zone).Format(layout) != text {
			return text
		}
		return UTC(at)
	})
}
