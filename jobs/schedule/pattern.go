package schedule

import (
	"math/bits"
	"time"
)

// calendar finds the dates and times that match a cron expression, on a
// calendar without zones: its seconds count from 1970-01-01 00:00:00 by a clock
// that is never changed.
type calendar struct {
	seconds, minutes, hours, months uint64
	days                            [7]uint64 // of a month that begins on this weekday
}

const (
	daySeconds = 24 * 60 * 60
	// The calendar repeats itself after so many years: what does not match in
	// them never does.
	cycleYears = 400
)

// newCalendar takes the values of the six fields as bits. Where one of the day
// fields starts with a star, both must match; else either.
func newCalendar(sets [6]uint64, anyDay, anyWeekday bool) calendar {
	c := calendar{seconds: sets[0], minutes: sets[1], hours: sets[2], months: sets[4]}
	for first := range c.days {
		var weekdays uint64
		for day := 1; day <= 31; day++ {
			weekdays |= sets[5] >> ((first + day - 1) % 7) & 1 << day
		}
		if anyDay || anyWeekday {
			c.days[first] = sets[3] & weekdays
		} else {
			c.days[first] = sets[3] | weekdays
		}
	}
	return c
}

// fires reports whether any date matches at all.
func (c *calendar) fires() bool {
	_, ok := c.next(0)
	return ok
}

// next returns the first match at or after from.
func (c *calendar) next(from int64) (int64, bool) {
	start := time.Unix(from, 0).UTC()
	year, month, day := start.Date()
	clock := start.Hour()*3600 + start.Minute()*60 + start.Second()
	later, today := c.nextClock(clock)
	if today && c.matches(year, month, day) {
		return from + int64(later-clock), true
	}
	midnight, ok := c.nextDay(year, month, day+1)
	first, _ := c.nextClock(0)
	return midnight + int64(first), ok
}

// nextDay returns the midnight that begins the first matching day at or after
// the given one, whose number may be one more than its month has.
func (c *calendar) nextDay(year int, month time.Month, day int) (int64, bool) {
	for last := year + cycleYears; year <= last; year++ {
		for ; month <= time.December; month++ {
			if c.months>>month&1 == 1 {
				if found, ok := nextBit(c.daysOf(year, month), day); ok {
					return time.Date(year, month, found, 0, 0, 0, 0, time.UTC).Unix(), true
				}
			}
			day = 1
		}
		month = time.January
	}
	return 0, false
}

func (c *calendar) matches(year int, month time.Month, day int) bool {
	return c.months>>month&1 == 1 && c.daysOf(year, month)>>day&1 == 1
}

// daysOf returns the month's matching days as bits.
func (c *calendar) daysOf(year int, month time.Month) uint64 {
	first := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
	length := 31
	switch month {
	case time.April, time.June, time.September, time.November:
		length = 30
	case time.February:
		length = 28
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			length = 29
		}
	}
	return c.days[first.Weekday()] & (1<<(length+1) - 1)
}

// nextClock returns the first matching second of a day at or after the given one.
func (c *calendar) nextClock(from int) (int, bool) {
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

// nextBit returns the first bit of set at or after from.
func nextBit(set uint64, from int) (int, bool) {
	rest := set >> from << from
	return bits.TrailingZeros64(rest), rest != 0
}
