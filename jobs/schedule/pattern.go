package schedule

import (
	"math/bits"
	"time"
)

// pattern finds matching dates and times on a clock without changes and zones: its seconds count
// from 1970-01-01 00:00:00.
type pattern struct {
	clock clock
	days  days
	shift int64 // seconds after midnight at which its days start
}

// clock is a set of times of a day. It is never empty.
type clock interface {
	// at returns the first second of a day that matches, at or after the given one.
	at(second int) (int, bool)
}

// days is a set of dates.
type days interface {
	// in returns the days of a month that match, as bits.
	in(year int, month time.Month) uint64
	// years returns the first and the last year in which any day can match.
	years() (first, last int)
}

const daySeconds = 24 * 60 * 60

// fires reports whether any date matches.
func (p *pattern) fires() bool {
	_, ok := p.next(time.Time{}.Unix() + daySeconds)
	return ok
}

// next returns the first match at or after from.
func (p *pattern) next(from int64) (int64, bool) {
	from -= p.shift
	start := time.Unix(from, 0).UTC()
	year, month, day := start.Date()
	clock := start.Hour()*3600 + start.Minute()*60 + start.Second()
	later, today := p.clock.at(clock)
	if today && p.days.in(year, month)>>day&1 == 1 {
		return from + int64(later-clock) + p.shift, true
	}
	midnight, ok := p.nextDay(year, month, day+1)
	first, _ := p.clock.at(0)
	return midnight + int64(first) + p.shift, ok
}

// nextDay returns the midnight before the first matching day at or after the given one. The number
// of the given day may be one more than its month has.
func (p *pattern) nextDay(year int, month time.Month, day int) (int64, bool) {
	first, last := p.days.years()
	if year < first {
		year, month, day = first, time.January, 1
	}
	for ; year <= last; year++ {
		for ; month <= time.December; month++ {
			if found, ok := nextBit(p.days.in(year, month), day); ok {
				return time.Date(year, month, found, 0, 0, 0, 0, time.UTC).Unix(), true
			}
			day = 1
		}
		month = time.January
	}
	return 0, false
}

// shape returns how many days a month has, and the weekday of its first.
func shape(year int, month time.Month) (length int, first time.Weekday) {
	length = 31
	switch month {
	case time.April, time.June, time.September, time.November:
		length = 30
	case time.February:
		length = 28
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			length = 29
		}
	}
	return length, time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).Weekday()
}

// upTo returns the days of a month of that length, as bits.
func upTo(length int) uint64 { return 1<<(length+1) - 2 }

// clockFields is the clock of a cron expression, with its values as bits.
type clockFields struct{ seconds, minutes, hours uint64 }

func (c clockFields) at(from int) (int, bool) {
	hour, minute, second := from/3600, from/60%60, from%60
	if c.hours>>hour&1 == 1 {
		if c.minutes>>minute&1 == 1 {
			if found, ok := nextBit(c.seconds, second); ok {
				return hour*3600 + minute*60 + found, true
			}
		}
		if found, ok := nextBit(c.minutes, minute+1); ok {
			return hour*3600 + found*60 + bits.TrailingZeros64(c.seconds), true
		}
	}
	found, ok := nextBit(c.hours, hour+1)
	return found*3600 + bits.TrailingZeros64(c.minutes)*60 + bits.TrailingZeros64(c.seconds), ok
}

func (c clockFields) everyHour() bool { return c.hours == 1<<24-1 }

// nextBit returns the first bit of set at or after from.
func nextBit(set uint64, from int) (int, bool) {
	rest := set >> from << from
	return bits.TrailingZeros64(rest), rest != 0
}

// cronDays is the set of dates of a cron expression with five or six fields.
type cronDays struct {
	months uint64
	days   [7]uint64 // the days of a month that starts on this weekday
}

// newCronDays returns the dates of fields that are given as bits. If one of the day fields starts
// with a star, both must match; otherwise either.
func newCronDays(monthDays, months, weekdays uint64, anyDay, anyWeekday bool) cronDays {
	c := cronDays{months: months}
	for first := range c.days {
		named := weekdayDays(weekdays, time.Weekday(first))
		if anyDay || anyWeekday {
			c.days[first] = monthDays & named
		} else {
			c.days[first] = monthDays | named
		}
	}
	return c
}

// weekdayDays returns the days of a month that fall on the weekdays, both as bits. The month starts
// on first; Sunday is bit 0.
func weekdayDays(weekdays uint64, first time.Weekday) uint64 {
	var days uint64
	for day := 1; day <= 31; day++ {
		days |= weekdays >> ((int(first) + day - 1) % 7) & 1 << day
	}
	return days
}

func (c cronDays) in(year int, month time.Month) uint64 {
	if c.months>>month&1 == 0 {
		return 0
	}
	length, first := shape(year, month)
	return c.days[first] & upTo(length)
}

func (c cronDays) years() (first, last int) { return 1, lastYear }
