package schedule

import (
	"fmt"
	"time"
)

// date is a day of the calendar.
type date struct {
	year  int
	month time.Month
	day   int
}

func dateOf(number int64) date {
	year, month, day := time.Unix(number*daySeconds, 0).UTC().Date()
	return date{year, month, day}
}

// number returns the number of days since 1970-01-01.
func (d date) number() int64 {
	return floorDiv(time.Date(d.year, d.month, d.day, 0, 0, 0, 0, time.UTC).Unix(), daySeconds)
}

// week returns the number of the week. Weeks start on Mondays; 1970-01-01 is in week 0.
func (d date) week() int64 { return weekOf(d.number()) }

func weekOf(number int64) int64 { return floorDiv(number+3, 7) }

func (d date) String() string { return fmt.Sprintf("%04d-%02d-%02d", d.year, d.month, d.day) }

// floorDiv divides and rounds down, also below zero.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// ticks matches every so many seconds of a day, from its start to the given last one.
type ticks struct{ step, last int }

func (t ticks) at(second int) (int, bool) {
	tick := (second + t.step - 1) / t.step * t.step
	return tick, tick <= t.last
}

type everyDays struct {
	every int
	first int64
}

func (e everyDays) in(year int, month time.Month) uint64 {
	length, _ := shape(year, month)
	into := floorMod(date{year, month, 1}.number()-e.first, int64(e.every))
	var days uint64
	for day := 1 + (e.every-into)%e.every; day <= length; day += e.every {
		days |= 1 << day
	}
	return days
}

func (e everyDays) years() (first, last int) { return 1, lastYear }

func floorMod(a, b int64) int { return int(a - floorDiv(a, b)*b) }

type everyWeeks struct {
	every    int
	weekdays uint64
	first    int64
}

func (e everyWeeks) in(year int, month time.Month) uint64 {
	length, first := shape(year, month)
	days := weekdayDays(e.weekdays, first) & upTo(length)
	if e.every == 1 {
		return days
	}
	start := date{year, month, 1}.number()
	for day := 1; day <= length; day++ {
		if floorMod(weekOf(start+int64(day-1))-e.first, int64(e.every)) != 0 {
			days &^= 1 << day
		}
	}
	return days
}

func (e everyWeeks) years() (first, last int) { return 1, lastYear }

// lastOfMonth stands for the last day, after the days that any month has.
const lastOfMonth = 32

type everyMonths struct {
	every int
	on    uint64
	first int // number of the month since the year 0
}

// in returns the days; a shorter month gets its last day for missing days, so that a monthly
// schedule is due in each month.
func (e everyMonths) in(year int, month time.Month) uint64 {
	if floorMod(int64(year*12+int(month)-1-e.first), int64(e.every)) != 0 {
		return 0
	}
	length, _ := shape(year, month)
	days := e.on & upTo(length)
	if e.on>>(length+1) != 0 {
		days |= 1 << length
	}
	return days
}

func (e everyMonths) years() (first, last int) { return 1, lastYear }

type everyYears struct {
	every int
	month time.Month
	day   int
	first int
}

func (e everyYears) in(year int, month time.Month) uint64 {
	if month != e.month || floorMod(int64(year-e.first), int64(e.every)) != 0 {
		return 0
	}
	length, _ := shape(year, month)
	return 1 << min(e.day, length)
}

func (e everyYears) years() (first, last int) { return 1, lastYear }

// since restricts dates to those from a date on.
type since struct {
	days
	from date
}

func (s since) in(year int, month time.Month) uint64 {
	days := s.days.in(year, month)
	switch {
	case year < s.from.year || year == s.from.year && month < s.from.month:
		return 0
	case year == s.from.year && month == s.from.month:
		return days >> s.from.day << s.from.day
	}
	return days
}

func (s since) years() (first, last int) { return s.from.year, lastYear }
