package schedule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/suggest"
)

const (
	monthNames   = "jan feb mar apr may jun jul aug sep oct nov dec"
	weekdayNames = "sun mon tue wed thu fri sat"
)

func monthName(m time.Month) string { return strings.ToLower(m.String()[:3]) }

// named returns the index of a name in names, in short or in full.
func named(text, names string, spelt func(int) string) (int, error) {
	short := strings.Fields(names)
	long := make([]string, len(short))
	for i, name := range short {
		if long[i] = strings.ToLower(spelt(i)); text == name || text == long[i] {
			return i, nil
		}
	}
	if near := suggest.Of(text, long); near != "" {
		return 0, fmt.Errorf("found %q; did you mean %q?", text, near)
	}
	return 0, fmt.Errorf("found %q%s", text, suggest.Hint(text, short))
}

// weekdaySet has Sunday as bit 0.
type weekdaySet uint64

const everyWeekday weekdaySet = 1<<7 - 1

func parseWeekday(text string) (time.Weekday, error) {
	if _, err := strconv.Atoi(text); err == nil {
		return 0, fmt.Errorf("found %q, expected the day's name, such as mon: 1 is Monday in "+
			"cron and Sunday in Quartz", text)
	}
	day, err := named(text, weekdayNames, func(i int) string { return time.Weekday(i).String() })
	return time.Weekday(day), err
}

// parseWeekdays parses names and ranges of weekdays, such as mon-fri,sun.
func parseWeekdays(text string) (weekdaySet, error) {
	var set weekdaySet
	for item := range strings.SplitSeq(strings.ToLower(text), ",") {
		low, high, ranged := strings.Cut(strings.TrimSpace(item), "-")
		first, err := parseWeekday(strings.TrimSpace(low))
		if err != nil {
			return 0, err
		}
		last := first
		if ranged {
			if last, err = parseWeekday(strings.TrimSpace(high)); err != nil {
				return 0, err
			}
		}
		for day := first; ; day = (day + 1) % 7 {
			set |= 1 << day
			if day == last {
				break
			}
		}
	}
	return set, nil
}

// weekdaysText formats a set from Monday; three or more in a row are a range.
func weekdaysText(set weekdaySet) string {
	names := strings.Fields(weekdayNames)
	var texts []string
	for i := 1; i <= 7; i++ {
		last := i
		for last < 7 && set>>(last%7)&1 == 1 && set>>((last+1)%7)&1 == 1 {
			last++
		}
		switch {
		case set>>(i%7)&1 == 0:
		case last > i+1:
			texts = append(texts, names[i]+"-"+names[last%7])
			i = last
		default:
			texts = append(texts, names[i%7])
		}
	}
	return strings.Join(texts, ",")
}

// parseClock parses a time of day into a second of the day.
func parseClock(text string) (int, error) {
	second, err := clockSecond(text)
	if err == nil && second == daySeconds {
		err = clockError(text)
	}
	return second, err
}

func clockError(text string) error {
	return fmt.Errorf("found %q, expected a time of day such as 02:30 or 02:30:15", text)
}

// clockSecond is parseClock that also accepts 24:00.
func clockSecond(text string) (int, error) {
	fields := strings.Split(text, ":")
	if len(fields) < 2 || len(fields) > 3 {
		return 0, clockError(text)
	}
	second := 0
	for i, field := range fields {
		n, err := strconv.ParseUint(field, 10, 8)
		if err != nil || len(field) > 2 || i > 0 && (n > 59 || len(field) != 2) {
			return 0, clockError(text)
		}
		second = second*60 + int(n)
	}
	if len(fields) == 2 {
		second *= 60
	}
	if second > daySeconds {
		return 0, clockError(text)
	}
	return second, nil
}

func clockText(second int) string {
	if second%60 == 0 {
		return fmt.Sprintf("%02d:%02d", second/3600, second/60%60)
	}
	return fmt.Sprintf("%02d:%02d:%02d", second/3600, second/60%60, second%60)
}

// parseWindow parses 09:00-17:00 or 09:00 and 17:00. It returns the start of the window and its
// length in seconds.
func parseWindow(text string) (from, length int, err error) {
	low, high, ok := strings.Cut(text, " and ")
	if !ok {
		if low, high, ok = strings.Cut(text, "-"); !ok {
			return 0, 0, fmt.Errorf("found %q, expected two times of day such as 09:00 and 17:00",
				text)
		}
	}
	if from, err = parseClock(strings.TrimSpace(low)); err != nil {
		return 0, 0, err
	}
	to, err := clockSecond(strings.TrimSpace(high))
	if err != nil {
		return 0, 0, err
	}
	if from == to {
		return 0, 0, fmt.Errorf("found %q, expected a window that ends after it begins; all day "+
			"is 00:00 and 24:00", text)
	}
	if to < from {
		to += daySeconds
	}
	return from, to - from, nil
}

func windowText(from, length int, between string) string {
	to := from + length
	if to > daySeconds {
		to -= daySeconds
	}
	return clockText(from) + between + clockText(to)
}

// parseDate parses 2026-01-31.
func parseDate(text string) (date, error) {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil || t.Year() < 1 {
		return date{}, fmt.Errorf("found %q, expected a date such as 2026-01-31", text)
	}
	return date{t.Year(), t.Month(), t.Day()}, nil
}

// parseMonthDays parses days of a month, such as 1,15,last, as bits.
func parseMonthDays(text string) (days uint64, normal string, err error) {
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		n, err := strconv.ParseUint(item, 10, 8)
		switch {
		case item == "last":
			n = lastOfMonth
		case err != nil || n < 1 || n > 31:
			return 0, "", fmt.Errorf("found %q, expected days of the month from 1 to 31, or last",
				item)
		}
		days |= 1 << n
	}
	var texts []string
	for day := 1; day <= 31; day++ {
		if days>>day&1 == 1 {
			texts = append(texts, strconv.Itoa(day))
		}
	}
	if days>>lastOfMonth == 1 {
		texts = append(texts, "last")
	}
	return days, strings.Join(texts, ","), nil
}

// parseYearDay parses 24 dec, dec 24 and 12-24.
func parseYearDay(text string) (time.Month, int, error) {
	words := strings.Fields(text)
	if len(words) == 1 {
		if month, day, err := parseMonthDay(text); err == nil {
			return month, day, nil
		}
	}
	if len(words) != 2 {
		return 0, 0, fmt.Errorf("found %q, expected a date of the year such as 24 dec", text)
	}
	if _, err := strconv.Atoi(words[0]); err != nil {
		words[0], words[1] = words[1], words[0]
	}
	month, err := named(words[1], monthNames, func(i int) string {
		return time.Month(i + 1).String()
	})
	if err != nil {
		return 0, 0, err
	}
	day, err := strconv.ParseUint(words[0], 10, 8)
	if err != nil || !inLeapYear(time.Month(month+1), int(day)) {
		return 0, 0, fmt.Errorf("found the day %q of %s, expected one that the month has", words[0],
			words[1])
	}
	return time.Month(month + 1), int(day), nil
}

// parseMonthDay parses 12-24.
func parseMonthDay(text string) (time.Month, int, error) {
	low, high, ok := strings.Cut(text, "-")
	month, errMonth := strconv.ParseUint(low, 10, 8)
	day, errDay := strconv.ParseUint(high, 10, 8)
	if !ok || len(low) != 2 || len(high) != 2 || errors.Join(errMonth, errDay) != nil ||
		month > 12 || !inLeapYear(time.Month(month), int(day)) {
		return 0, 0, fmt.Errorf("found %q, expected a date of the year such as 12-24", text)
	}
	return time.Month(month), int(day), nil
}

// inLeapYear reports whether a leap year has the date.
func inLeapYear(month time.Month, day int) bool {
	if month < time.January || day < 1 {
		return false
	}
	length, _ := shape(2000, month)
	return day <= length
}
