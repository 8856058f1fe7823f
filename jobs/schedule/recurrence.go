package schedule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/durations"
	"github.com/holdfast-dev/holdfast/internal/suggest"
)

// Recurrence is a schedule in words, by part: "every 20m between 09:00 and 17:00 on mon-fri" is due
// within daily windows. "every 2 weeks at 02:30 on mon" is due on days of the calendar. Missing
// parts are "".
type Recurrence struct {
	// Every is a duration of whole seconds such as 20m, or a number of days,
	// weeks, months or years such as 2 weeks.
	Every string
	// At is the time of day of days, weeks, months and years, such as 02:30;
	// midnight if it is not given.
	At string
	// Between is the daily window of a duration, such as 09:00 and 17:00, both included. A window
	// whose end is before its start, such as 22:00 and 02:00, ends on the next day. The first
	// scheduled time of a window is its start.
	Between string
	// On selects days: weekdays such as mon-fri for windows and weeks, days such as 1,15,last for
	// months, and a date such as 24 dec for years. A month without the day uses its last day.
	On string
	// From is the date from which days, weeks, months and years count, such as 2026-01-31; nothing
	// is due before it. Without it they count from 1970-01-01, weeks from the Monday before, and
	// have no start.
	From string
}

// parts returns the words that begin a part, in the order of writing.
func parts() []string { return []string{"every", "between", "at", "on", "from"} }

func (r *Recurrence) part(name string) *string {
	switch name {
	case "every":
		return &r.Every
	case "between":
		return &r.Between
	case "at":
		return &r.At
	case "on":
		return &r.On
	}
	return &r.From
}

// String returns the recurrence in the form that ParseText reads.
func (r Recurrence) String() string {
	var words []string
	for _, name := range parts() {
		if text := *r.part(name); text != "" {
			words = append(words, name, text)
		}
	}
	return strings.Join(words, " ")
}

// splitRecurrence parses the output of String without the first word.
func splitRecurrence(text string) (Recurrence, error) {
	var r Recurrence
	name, given := "every", map[string][]string{"every": nil}
	for _, word := range strings.Fields(strings.ToLower(text)) {
		isPart := false
		for _, part := range parts() {
			isPart = isPart || word == part
		}
		if near := suggest.Of(word, []string{"every", "between", "from"}); !isPart && near != "" &&
			len(word) > 3 {
			return r, &PartError{Part: name,
				Err: fmt.Errorf("found %q after it; did you mean %q?", word, near)}
		}
		if !isPart {
			given[name] = append(given[name], word)
			continue
		}
		if _, twice := given[word]; twice {
			return r, &PartError{Part: word,
				Err: errors.New("found it a second time, expected it once")}
		}
		name, given[word] = word, nil
	}
	for _, part := range parts() {
		words, ok := given[part]
		if ok && len(words) == 0 && part != "every" {
			return r, &PartError{Part: part, Err: errors.New("found nothing after it")}
		}
		*r.part(part) = strings.Join(words, " ")
	}
	return r, nil
}

// PartError is a mistake in one part of a Recurrence.
type PartError struct {
	Part string // every, at, between, on or from
	Err  error
}

// Error names the part.
func (e *PartError) Error() string { return e.Part + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *PartError) Unwrap() error { return e.Err }

// PartErrors holds every mistake in a Recurrence, one per part.
type PartErrors []*PartError

// Error joins the mistakes with semicolons.
func (e PartErrors) Error() string {
	texts := make([]string, len(e))
	for i, part := range e {
		texts[i] = part.Error()
	}
	return strings.Join(texts, "; ")
}

// recurrenceParser collects the mistakes of all parts.
type recurrenceParser struct {
	Recurrence
	mistakes PartErrors
}

// parse returns the rule that r describes, and its normal form.
func (r Recurrence) parse(zone *time.Location) (rule, string, error) {
	p := recurrenceParser{Recurrence: r}
	amount, err := parseAmount(r.Every)
	if err != nil {
		return nil, "", PartErrors{{Part: "every", Err: err}}
	}
	var found rule
	switch {
	case amount.unit != "":
		found = p.dates(amount, zone)
	case r == Recurrence{Every: r.Every}:
		interval, err := newInterval(amount.duration)
		if err != nil {
			return nil, "", PartErrors{{Part: "every", Err: err}}
		}
		return interval, "every:" + durations.Short(amount.duration), nil
	default:
		found = p.window(amount.duration, zone)
	}
	if len(p.mistakes) > 0 {
		return nil, "", p.mistakes
	}
	return found, p.String(), nil
}

// take parses a part if it is given, and stores its normal form.
func (p *recurrenceParser) take(part string, read func(text string) (normal string, err error)) {
	text := p.part(part)
	if *text == "" {
		return
	}
	normal, err := read(strings.ToLower(strings.TrimSpace(*text)))
	if err != nil {
		p.mistakes = append(p.mistakes, &PartError{Part: part, Err: err})
		return
	}
	*text = normal
}

func (p *recurrenceParser) refuse(part, goesWith string) {
	p.take(part, func(string) (string, error) {
		return "", fmt.Errorf("found %q with every %s: it goes with %s", *p.part(part), p.Every,
			goesWith)
	})
}

// window parses a duration within daily windows.
func (p *recurrenceParser) window(step time.Duration, zone *time.Location) rule {
	from, length, weekdays := 0, daySeconds, everyWeekday
	p.refuse("at", "days, weeks, months or years")
	p.refuse("from", "days, weeks, months or years")
	p.take("between", func(text string) (normal string, err error) {
		found, lasts, err := parseWindow(text)
		if err == nil { // otherwise the step cannot be compared with it
			from, length = found, lasts
		}
		return windowText(from, length, " and "), err
	})
	p.take("on", func(text string) (normal string, err error) {
		weekdays, err = parseWeekdays(text)
		return weekdaysText(weekdays), err
	})
	p.take("every", func(string) (string, error) {
		if step < time.Second || step%time.Second != 0 {
			return "", fmt.Errorf("found %s, expected whole seconds, at least 1s", step)
		}
		if most := time.Duration(length) * time.Second; step > most {
			return "", fmt.Errorf("found %s, expected at most the window's %s",
				durations.Short(step), durations.Short(most))
		}
		return durations.Short(step), nil
	})
	return &local{
		pattern: pattern{
			clock: ticks{step: max(1, int(step/time.Second)), last: min(length, daySeconds-1)},
			days:  everyWeeks{every: 1, weekdays: uint64(weekdays)}, shift: int64(from),
		},
		zone: zone, even: true, everyHour: length == daySeconds && step <= time.Hour,
	}
}

// dates parses a number of days, weeks, months or years.
func (p *recurrenceParser) dates(a amount, zone *time.Location) rule {
	p.Every = a.String()
	var at int
	p.refuse("between", "a duration such as 20m")
	p.take("at", func(text string) (normal string, err error) {
		at, err = parseClock(text)
		return clockText(at), err
	})
	from := date{1970, time.January, 1}
	bounded := false
	p.take("from", func(text string) (normal string, err error) {
		from, err = parseDate(text)
		bounded = true
		return from.String(), err
	})
	days := p.days(a, from)
	if bounded {
		days = since{days: days, from: from}
	}
	return &local{pattern: pattern{clock: ticks{step: daySeconds}, days: days, shift: int64(at)},
		zone: zone}
}

func (p *recurrenceParser) days(a amount, from date) days {
	switch a.unit {
	case "week":
		weekdays := weekdaySet(1 << time.Monday)
		p.take("on", func(text string) (normal string, err error) {
			weekdays, err = parseWeekdays(text)
			return weekdaysText(weekdays), err
		})
		return everyWeeks{every: a.count, weekdays: uint64(weekdays), first: from.week()}
	case "month":
		on := uint64(1 << 1)
		p.take("on", func(text string) (normal string, err error) {
			on, normal, err = parseMonthDays(text)
			return normal, err
		})
		return everyMonths{every: a.count, on: on, first: from.year*12 + int(from.month) - 1}
	case "year":
		month, day := time.January, 1
		p.take("on", func(text string) (normal string, err error) {
			month, day, err = parseYearDay(text)
			return fmt.Sprintf("%d %s", day, monthName(month)), err
		})
		return everyYears{every: a.count, month: month, day: day, first: from.year}
	}
	p.refuse("on", "weeks, months, years or a duration")
	return everyDays{every: a.count, first: from.number()}
}

// amount is the value of every: a duration, or a number of units of the calendar.
type amount struct {
	duration time.Duration
	count    int
	unit     string // day, week, month or year; "": duration
}

func (a amount) String() string {
	if a.count == 1 {
		return "1 " + a.unit
	}
	return fmt.Sprintf("%d %ss", a.count, a.unit)
}

const maxCount = 1000 // of days, weeks, months or years

func parseAmount(text string) (amount, error) {
	words := strings.Fields(strings.ToLower(text))
	if len(words) == 1 && !isUnit(words[0]) {
		d, err := parseEvery(words[0])
		return amount{duration: d}, err
	}
	count := 1
	if len(words) == 2 {
		n, err := strconv.ParseUint(words[0], 10, 31)
		if err != nil || n < 1 {
			return amount{}, fmt.Errorf("found %q, expected a number from 1 on", words[0])
		}
		count, words = int(n), words[1:]
	}
	if len(words) != 1 {
		return amount{}, fmt.Errorf("found %q, expected a duration such as 90s, or a number and "+
			"days, weeks, months or years", text)
	}
	unit := strings.TrimSuffix(words[0], "s")
	if length, short := map[string]time.Duration{"second": time.Second, "minute": time.Minute,
		"hour": time.Hour}[unit]; short {
		if time.Duration(count) > maxEvery/length {
			return amount{}, fmt.Errorf("found %q, expected at most %s", text, maxEvery)
		}
		return amount{duration: time.Duration(count) * length}, nil
	}
	if !isUnit(unit) {
		units := []string{"second", "minute", "hour", "day", "week", "month", "year"}
		return amount{}, fmt.Errorf("found the unit %q%s", words[0], suggest.Hint(unit, units))
	}
	if count > maxCount {
		return amount{}, fmt.Errorf("found %d, expected 1 to %d %ss", count, maxCount, unit)
	}
	return amount{count: count, unit: unit}, nil
}

func isUnit(word string) bool {
	switch strings.TrimSuffix(word, "s") {
	case "second", "minute", "hour", "day", "week", "month", "year":
		return true
	}
	return false
}
