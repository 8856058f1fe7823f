package schedule

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/suggest"
)

// repeats is a recurrence rule of iCalendar (RFC 5545, 3.3.10), restricted to days.
type repeats struct {
	unit      string // day, week, month or year
	every     int
	start     int64 // the first day
	last      int64 // no occurrence starts after this day
	months    uint64
	monthDays []int // negative: from the end of the month
	weekdays  []nthDay
	weekStart time.Weekday
}

// nthDay is a weekday: the nth in the month or the year, from the end if it is negative; 0: each.
type nthDay struct {
	weekday time.Weekday
	nth     int
}

// maxRepeatYears limits how far ahead COUNT is counted.
const maxRepeatYears = 400

// on reports whether the rule has the day. The day is after the first day of the event.
func (r *repeats) on(day int64) bool {
	return day <= r.last && r.matches(day)
}

func (r *repeats) matches(day int64) bool {
	d, start := dateOf(day), dateOf(r.start)
	var units int64
	switch r.unit {
	case "day":
		units = day - r.start
	case "week":
		units = r.week(day) - r.week(r.start)
	case "month":
		units = int64(d.year-start.year)*12 + int64(d.month-start.month)
	default:
		units = int64(d.year - start.year)
	}
	if units < 0 || units%int64(r.every) != 0 || r.months != 0 && r.months>>d.month&1 == 0 {
		return false
	}
	length, _ := shape(d.year, d.month)
	if len(r.monthDays) > 0 && !slices.ContainsFunc(r.monthDays, func(n int) bool {
		return n == d.day || n < 0 && length+1+n == d.day
	}) {
		return false
	}
	if len(r.weekdays) > 0 {
		return slices.ContainsFunc(r.weekdays, func(n nthDay) bool {
			return n.is(d, r.unit == "year" && r.months == 0)
		})
	}
	return len(r.monthDays) > 0 || r.sameDay(d, start)
}

// sameDay reports whether a rule without days matches: it repeats the first day.
func (r *repeats) sameDay(d, start date) bool {
	switch r.unit {
	case "day":
		return true
	case "week":
		return floorMod(d.number()-start.number(), 7) == 0
	case "month":
		return d.day == start.day
	}
	return d.day == start.day && (r.months != 0 || d.month == start.month)
}

// week returns the number of the week, which starts on the rule's first weekday.
func (r *repeats) week(day int64) int64 {
	return floorDiv(day+int64(time.Thursday-r.weekStart), 7)
}

func (n nthDay) is(d date, ofYear bool) bool {
	number := d.number()
	if time.Weekday(floorMod(number+int64(time.Thursday), 7)) != n.weekday {
		return false
	}
	if n.nth == 0 {
		return true
	}
	into, length := d.day, 0
	if length, _ = shape(d.year, d.month); ofYear {
		first := date{d.year, time.January, 1}.number()
		into, length = int(number-first)+1, int(date{d.year + 1, time.January, 1}.number()-first)
	}
	if n.nth > 0 {
		return (into+6)/7 == n.nth
	}
	return (length-into)/7+1 == -n.nth
}

// parseRepeats parses the value of an RRULE. It returns UNTIL as it is written, because that may be
// a time with a zone.
func parseRepeats(text string, start int64) (r *repeats, until string, err error) {
	r = &repeats{every: 1, start: start, last: math.MaxInt64, weekStart: time.Monday}
	count := 0
	seen := map[string]bool{}
	for pair := range strings.SplitSeq(strings.TrimSuffix(text, ";"), ";") {
		name, value, ok := strings.Cut(pair, "=")
		name, value = strings.ToUpper(name), strings.ToUpper(value)
		if !ok || seen[name] {
			return nil, "", fmt.Errorf("found %q, expected each part once, such as FREQ=YEARLY",
				pair)
		}
		seen[name] = true
		switch name {
		case "UNTIL":
			until = value
		case "COUNT":
			count, err = parseWithin(value, 1, 10_000)
		default:
			err = r.part(name, value)
		}
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := r.check(seen); err != nil {
		return nil, "", err
	}
	if count > 0 {
		r.last = r.nth(count)
	}
	return r, until, nil
}

func parseWithin(text string, low, high int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("found %q, expected a number from %d to %d", text, low, high)
	}
	return n, nil
}

func (r *repeats) part(name, value string) (err error) {
	switch name {
	case "FREQ":
		unit, ok := map[string]string{"DAILY": "day", "WEEKLY": "week", "MONTHLY": "month",
			"YEARLY": "year"}[value]
		if !ok {
			return fmt.Errorf("found %q, expected YEARLY, MONTHLY, WEEKLY or DAILY", value)
		}
		r.unit = unit
	case "INTERVAL":
		r.every, err = parseWithin(value, 1, maxCount)
	case "BYMONTH":
		return eachOf(value, func(text string) error {
			month, err := parseWithin(text, 1, 12)
			r.months |= 1 << month
			return err
		})
	case "BYMONTHDAY":
		return eachOf(value, func(text string) error {
			day, err := parseWithin(text, -31, 31)
			if day == 0 && err == nil {
				err = errors.New("found 0, expected 1 to 31, or -1 to -31 from the month's end")
			}
			r.monthDays = append(r.monthDays, day)
			return err
		})
	case "BYDAY":
		return eachOf(value, func(text string) error {
			day, err := parseNthDay(text)
			r.weekdays = append(r.weekdays, day)
			return err
		})
	case "WKST":
		day, err := parseNthDay(value)
		r.weekStart = day.weekday
		return err
	default:
		known := []string{"FREQ", "INTERVAL", "COUNT", "UNTIL", "BYMONTH", "BYMONTHDAY", "BYDAY",
			"WKST"}
		return fmt.Errorf("not supported%s", suggest.Hint(name, known))
	}
	return err
}

func eachOf(list string, read func(text string) error) error {
	for text := range strings.SplitSeq(list, ",") {
		if err := read(text); err != nil {
			return err
		}
	}
	return nil
}

// parseNthDay parses MO, 4TH and -1FR.
func parseNthDay(text string) (nthDay, error) {
	names := []string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}
	i := -1
	if len(text) >= 2 {
		i = slices.Index(names, text[len(text)-2:])
	}
	if i < 0 {
		return nthDay{}, fmt.Errorf("found %q, expected a weekday: %s, with a number before it "+
			"for the nth", text, strings.Join(names, ", "))
	}
	day := nthDay{weekday: time.Weekday(i)}
	if digits := text[:len(text)-2]; digits != "" {
		nth, err := parseWithin(digits, -53, 53)
		if err != nil || nth == 0 {
			return nthDay{}, fmt.Errorf("found %q, expected a number from 1 to 53 before the "+
				"weekday, or from -1 to -53", text)
		}
		day.nth = nth
	}
	return day, nil
}

// check returns an error for an invalid combination of parts.
func (r *repeats) check(seen map[string]bool) error {
	nth := slices.ContainsFunc(r.weekdays, func(n nthDay) bool { return n.nth != 0 })
	switch {
	case !seen["FREQ"]:
		return errors.New("found no FREQ, expected one such as FREQ=YEARLY")
	case seen["UNTIL"] && seen["COUNT"]:
		return errors.New("found UNTIL and COUNT, expected one of them")
	case nth && r.unit != "month" && r.unit != "year":
		return errors.New(
			"BYDAY: found a number before a weekday, which goes with MONTHLY and YEARLY")
	case r.unit == "week" && len(r.monthDays) > 0:
		return errors.New("BYMONTHDAY: found it with WEEKLY, expected it with another frequency")
	}
	return nil
}

// nth returns the day of the nth occurrence, counted from the first day. It returns no limit if the
// rule does not have as many within its bound.
func (r *repeats) nth(count int) int64 {
	d := dateOf(r.start)
	last := d.year + maxRepeatYears
	for day := r.start + 1; count > 1; day++ {
		if d = dateOf(day); d.year > last {
			return math.MaxInt64
		}
		if !r.mayHave(d) {
			length, _ := shape(d.year, d.month)
			day += int64(length - d.day)
			continue
		}
		if r.matches(day) {
			if count--; count == 1 {
				return day
			}
		}
	}
	return r.start
}

// mayHave reports whether the rule may have a day in the month.
func (r *repeats) mayHave(d date) bool {
	start := dateOf(r.start)
	switch {
	case r.months != 0 && r.months>>d.month&1 == 0:
		return false
	case r.unit == "year":
		return (d.year-start.year)%r.every == 0
	case r.unit == "month":
		return ((d.year-start.year)*12+int(d.month-start.month))%r.every == 0
	}
	return true
}
