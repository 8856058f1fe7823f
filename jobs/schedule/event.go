package schedule

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// event is an event of an iCalendar file with its repetitions: of whole days, or from a time of
// day.
type event struct {
	first   int64          // day number of its first day
	days    int64          // its length in days; 0: it has a time of day
	clock   int            // the second of the day at which it starts
	seconds int64          // its length with a time of day
	zone    *time.Location // zone of clock; nil: the calendar's
	repeats *repeats       // nil: once
	more    []int64        // further first days
	except  []int64        // excluded first days
}

// maxEventDays is the longest event that may repeat. The search visits as many days before a time.
const maxEventDays = 31

// begins reports whether an occurrence starts on the day.
func (e *event) begins(day int64) bool {
	if slices.Contains(e.except, day) {
		return false
	}
	return day == e.first || slices.Contains(e.more, day) ||
		e.repeats != nil && day > e.first && e.repeats.on(day)
}

func (e *event) has(m moment) (in bool, stays int64) {
	today := floorDiv(m.local, daySeconds)
	// A search that begins in the year 1 must pass over the time before the event in one step.
	if begin := e.earliest(); today < begin {
		return false, begin*daySeconds - m.local
	}
	midnight := (today+1)*daySeconds - m.local
	if e.days > 0 {
		for day := today; day > today-e.days; day-- {
			if e.begins(day) {
				return true, (day+e.days)*daySeconds - m.local
			}
		}
		return false, midnight
	}
	return e.hasTime(m, midnight)
}

// earliest returns a day before which no occurrence touches any day. The event's zone may be a day
// ahead of the calendar's.
func (e *event) earliest() int64 {
	first := e.first
	for _, day := range e.more {
		first = min(first, day)
	}
	return first - 2
}

// hasTime is has for an event with a time of day.
func (e *event) hasTime(m moment, midnight int64) (in bool, stays int64) {
	stays = midnight
	for _, day := range e.near(floorDiv(m.local, daySeconds)) {
		from := e.startOn(day, m.local-m.instant)
		switch {
		case from > m.instant:
			stays = min(stays, from-m.instant)
		case m.instant < from+e.seconds:
			return true, from + e.seconds - m.instant
		}
	}
	return false, stays
}

// near returns the days on which occurrences start that may touch a day. The event's zone may be a
// day ahead of the calendar's, or behind it.
func (e *event) near(day int64) []int64 {
	var days []int64
	if e.repeats == nil {
		for _, first := range append([]int64{e.first}, e.more...) {
			if e.begins(first) {
				days = append(days, first)
			}
		}
		return days
	}
	longest := (int64(e.clock)+e.seconds)/daySeconds + 2
	for first := day - longest; first <= day+2; first++ {
		if e.begins(first) {
			days = append(days, first)
		}
	}
	return days
}

// startOn returns the time at which an occurrence starts on a day.
func (e *event) startOn(day, offset int64) int64 {
	local := day*daySeconds + int64(e.clock)
	if e.zone == nil {
		return local - offset
	}
	d := dateOf(day)
	return time.Date(d.year, d.month, d.day, 0, 0, e.clock, 0, e.zone).Unix()
}

// whole returns the days of an event of whole days without repetitions.
func (e *event) whole() (dateRange, bool) {
	simple := e.days > 0 && e.repeats == nil && len(e.more)+len(e.except) == 0
	return dateRange{e.first, e.first + e.days - 1}, simple
}

// line describes the event; equal events have equal lines.
func (e *event) line() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %dd", dateOf(e.first), e.days)
	if e.days == 0 {
		fmt.Fprintf(&text, " %s %ds", clockText(e.clock), e.seconds)
		if e.zone != nil {
			text.WriteString(" " + e.zone.String())
		}
	}
	if e.repeats != nil {
		fmt.Fprintf(&text, " repeats %+v", *e.repeats)
	}
	for _, list := range []struct {
		name string
		days []int64
	}{{"more", e.more}, {"except", e.except}} {
		days := slices.Sorted(slices.Values(list.days))
		for _, day := range slices.Compact(days) {
			fmt.Fprintf(&text, " %s %s", list.name, dateOf(day))
		}
	}
	return text.String()
}
