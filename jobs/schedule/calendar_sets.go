package schedule

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// dateSet is a set of single dates, ranges, yearly dates, and events of iCalendar files.
type dateSet struct {
	ranges []dateRange // sorted, disjoint
	yearly []yearRange
	events []event
}

// dateRange is a range of day numbers, both ends included.
type dateRange struct{ first, last int64 }

// yearRange is a range of dates in every year, both ends included; it may span the end of the year.
type yearRange struct{ first, last monthDay }

type monthDay struct {
	month time.Month
	day   int
}

func (m monthDay) compare(o monthDay) int {
	return cmp.Or(cmp.Compare(m.month, o.month), cmp.Compare(m.day, o.day))
}

func (m monthDay) String() string { return fmt.Sprintf("%02d-%02d", m.month, m.day) }

func (y yearRange) has(m monthDay) bool {
	after, before := y.first.compare(m) <= 0, m.compare(y.last) <= 0
	if y.last.compare(y.first) < 0 {
		return after || before
	}
	return after && before
}

func (d *dateSet) has(m moment) (in bool, stays int64) {
	today := floorDiv(m.local, daySeconds)
	tomorrow := (today+1)*daySeconds - m.local
	i, found := slices.BinarySearchFunc(d.ranges, today, func(r dateRange, day int64) int {
		switch {
		case r.last < day:
			return -1
		case r.first > day:
			return 1
		}
		return 0
	})
	if found {
		return true, (d.ranges[i].last+1)*daySeconds - m.local
	}
	shown := dateOf(today)
	for _, y := range d.yearly {
		if y.has(monthDay{shown.month, shown.day}) {
			return true, tomorrow
		}
	}
	switch {
	case len(d.yearly) > 0:
		stays = tomorrow
	case i < len(d.ranges):
		stays = d.ranges[i].first*daySeconds - m.local
	default:
		stays = forever
	}
	for i := range d.events {
		within, until := d.events[i].has(m)
		if within {
			return true, min(until, forever)
		}
		stays = min(stays, until)
	}
	return false, stays
}

func (d *dateSet) lines() []string {
	var lines []string
	for _, r := range d.ranges {
		lines = append(lines, fmt.Sprintf("dates %s..%s", dateOf(r.first), dateOf(r.last)))
	}
	for _, y := range d.yearly {
		lines = append(lines, fmt.Sprintf("dates %s..%s", y.first, y.last))
	}
	for _, e := range d.events {
		lines = append(lines, "event "+e.line())
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// merge sorts the ranges and joins those that touch.
func (d *dateSet) merge() {
	slices.SortFunc(d.ranges, func(a, b dateRange) int { return cmp.Compare(a.first, b.first) })
	joined := d.ranges[:0]
	for _, r := range d.ranges {
		if n := len(joined); n > 0 && r.first <= joined[n-1].last+1 {
			joined[n-1].last = max(joined[n-1].last, r.last)
			continue
		}
		joined = append(joined, r)
	}
	d.ranges = joined
}

func (d *dateSet) empty() bool { return len(d.ranges)+len(d.yearly)+len(d.events) == 0 }

func (w weekdaySet) has(m moment) (in bool, stays int64) {
	today := floorDiv(m.local, daySeconds)
	weekday := floorMod(today+int64(time.Thursday), 7)
	in = w>>weekday&1 == 1
	days := int64(1)
	for ; days < 7 && (w>>((weekday+int(days))%7)&1 == 1) == in; days++ {
	}
	return in, (today+days)*daySeconds - m.local
}

func (w weekdaySet) lines() []string { return []string{"weekdays " + weekdaysText(w)} }

// windows is a set of times of day, as ranges that exclude their ends.
type windows []window

type window struct{ from, length int }

func (w windows) has(m moment) (in bool, stays int64) {
	clock := floorMod(m.local, daySeconds)
	inside, outside := int64(0), int64(forever)
	for _, span := range w {
		if into := floorMod(int64(clock-span.from), daySeconds); into < span.length {
			inside = max(inside, int64(span.length-into))
		} else {
			outside = min(outside, int64(daySeconds-into))
		}
	}
	if inside > 0 {
		return true, inside
	}
	return false, outside
}

func (w windows) lines() []string {
	var lines []string
	for _, span := range w {
		lines = append(lines, "window "+windowText(span.from, span.length, "-"))
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// allDay reports whether the windows cover the whole day.
func (w windows) allDay() bool {
	at := int64(0)
	for range len(w) + 1 {
		in, stays := w.has(moment{local: at})
		if !in {
			return false
		}
		if at += stays; at >= daySeconds {
			return true
		}
	}
	return false
}

// cronSet is the set of times that any of several expressions match.
type cronSet []cronTimes

type cronTimes struct {
	text    string
	pattern pattern
	minutes bool // five fields: whole minutes
}

func (c cronSet) has(m moment) (in bool, stays int64) {
	inside, outside := int64(0), int64(forever)
	for i := range c {
		within, until := c[i].has(m.local)
		if within {
			inside = max(inside, until)
		} else {
			outside = min(outside, until)
		}
	}
	if inside > 0 {
		return true, inside
	}
	return false, outside
}

func (c *cronTimes) has(local int64) (in bool, stays int64) {
	at := local
	if c.minutes {
		at = floorDiv(local, 60) * 60
	}
	next, ok := c.pattern.next(at)
	switch {
	case !ok:
		return false, forever
	case next != at:
		return false, next - local
	}
	return true, at + c.whole(at) - local
}

// whole returns how long a match lasts: as long as the lower fields match every value.
func (c *cronTimes) whole(at int64) int64 {
	fields, ok := c.pattern.clock.(clockFields)
	second, all := int64(1), uint64(1<<60-1)
	switch {
	case !ok:
		return second
	case !c.minutes && fields.seconds != all:
		return runOf(fields.seconds, int(floorMod(at, 60)))
	case fields.minutes != all:
		return 60*runOf(fields.minutes, floorMod(at, 3600)/60) - int64(floorMod(at, 60))
	case !fields.everyHour():
		return 3600*runOf(fields.hours, floorMod(at, daySeconds)/3600) - int64(floorMod(at, 3600))
	}
	return daySeconds - int64(floorMod(at, daySeconds))
}

// runOf returns how many consecutive values the set has from the given one.
func runOf(set uint64, from int) int64 { return int64(bits.TrailingZeros64(^(set >> from))) }

func (c cronSet) lines() []string {
	var lines []string
	for _, times := range c {
		lines = append(lines, "cron "+times.text)
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}
