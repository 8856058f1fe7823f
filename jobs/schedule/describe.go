package schedule

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/durations"
	"github.com/holdfast-dev/holdfast/internal/plural"
)

// Describe returns the schedule in words, such as "every 5 minutes, Berlin time" or "at 02:30 on
// weekdays, UTC". A schedule without a short description is returned as written.
func (s Schedule) Describe() string {
	text, zoned := s.words()
	if zoned {
		text += ", " + zoneWords(s.Zone())
	}
	if names := s.Calendars(); len(names) > 0 {
		text += ", but not when " + listWords(names) + " " +
			plural.Word(len(names), "excludes", "exclude") + " it"
	}
	if jitter := s.MaxDelay(); jitter > 0 {
		text += ", up to " + durations.Short(jitter) + " later"
	}
	return text
}

// words returns the description, and whether the zone matters.
func (s Schedule) words() (text string, zoned bool) {
	switch rule := s.plan().rule.(type) {
	case nil:
		if after := s.After(); len(after) > 0 {
			return "after " + listWords(after), false
		}
		return "only when triggered", false
	case interval:
		return "every " + durationWords(time.Duration(rule)*time.Second), false
	case once:
		return "once, " + time.Time(rule).UTC().Format("2006-01-02 15:04:05 UTC"), false
	case *local:
		if text, ok := rule.pattern.words(); ok {
			return text, true
		}
		if text, ok := recurrenceWords(s.String()); ok {
			return text, true
		}
	}
	return s.String(), true
}

func zoneWords(zone *time.Location) string {
	name := zone.String()
	area, place, found := strings.Cut(name, "/")
	if !found || area == "Etc" {
		return name
	}
	return strings.ReplaceAll(place[strings.LastIndexByte(place, '/')+1:], "_", " ") + " time"
}

// words describes patterns of cron and Quartz.
func (p *pattern) words() (string, bool) {
	fields, isFields := p.clock.(clockFields)
	if !isFields {
		return "", false
	}
	times, even, ok := fields.words()
	days, known := daysWords(p.days)
	if !ok || !known {
		return "", false
	}
	switch {
	case days != "":
		return times + " " + days, true
	case even:
		return times, true
	}
	return "every day " + times, true
}

// words describes the times of a day. Evenly spaced times need no description of the day.
func (c clockFields) words() (text string, even, ok bool) {
	const allMinutes = 1<<60 - 1
	seconds, minutes, hours := members(c.seconds), members(c.minutes), members(c.hours)
	switch {
	case len(seconds) > 1:
		every, ok := everyOf(seconds, 60, "second")
		window, within := hoursWindow(hours)
		return every + window, true, ok && within && c.minutes == allMinutes
	case c.minutes == allMinutes && seconds[0] > 0:
		window, within := hoursWindow(hours)
		return fmt.Sprintf("every minute at second %d", seconds[0]) + window, true, within
	case seconds[0] == 0 && len(minutes) > 2:
		if every, ok := everyOf(minutes, 60, "minute"); ok {
			window, within := hoursWindow(hours)
			return every + window, true, within
		}
	}
	return timesWords(hours, minutes, seconds[0])
}

// timesWords describes times that are few, or the same in each of many hours.
func timesWords(hours, minutes []int, second int) (text string, even, ok bool) {
	const few = 6
	clock := func(hour, minute int) string {
		if second > 0 {
			return fmt.Sprintf("%02d:%02d:%02d", hour, minute, second)
		}
		return fmt.Sprintf("%02d:%02d", hour, minute)
	}
	every, stepped := everyOf(hours, 24, "hour")
	switch {
	case len(hours)*len(minutes) <= few:
		var times []string
		for _, hour := range hours {
			for _, minute := range minutes {
				times = append(times, clock(hour, minute))
			}
		}
		return "at " + listWords(times), false, true
	case len(hours) == 24 && len(minutes) == 1 && minutes[0] == 0 && second == 0:
		return "every hour", true, true
	case len(hours) == 24 && len(minutes) <= few:
		var texts []string
		for _, minute := range minutes {
			texts = append(texts, strings.TrimPrefix(clock(0, minute), "00"))
		}
		return "every hour at " + listWords(texts), true, true
	case len(minutes) == 1 && consecutive(hours):
		return "every hour from " + clock(hours[0], minutes[0]) + " to " +
			clock(hours[len(hours)-1], minutes[0]), true, true
	case len(minutes) == 1 && stepped:
		text, _, _ := strings.Cut(every, " from ")
		if hours[0] > 0 || minutes[0] > 0 || second > 0 {
			text += " from " + clock(hours[0], minutes[0])
		}
		return text, true, true
	}
	return "", false, false
}

// hoursWindow describes a range of hours.
func hoursWindow(hours []int) (text string, ok bool) {
	const few = 6
	switch {
	case len(hours) == 24:
		return "", true
	case consecutive(hours):
		return fmt.Sprintf(" between %02d:00 and %02d:59", hours[0], hours[len(hours)-1]), true
	case len(hours) <= few:
		var texts []string
		for _, hour := range hours {
			texts = append(texts, fmt.Sprint(hour))
		}
		return " in the hours " + listWords(texts), true
	}
	return "", false
}

// everyOf describes a set that starts within its first step and goes on to the end.
func everyOf(set []int, size int, unit string) (string, bool) {
	if len(set) < 2 {
		return "", false
	}
	step := set[1] - set[0]
	for i := range set {
		if set[i] != set[0]+i*step {
			return "", false
		}
	}
	if set[0] >= step || set[len(set)-1]+step < size {
		return "", false
	}
	text := fmt.Sprintf("every %d %ss", step, unit)
	if step == 1 {
		text = "every " + unit
	}
	if size%step != 0 {
		text += " of each " + map[string]string{"second": "minute", "minute": "hour",
			"hour": "day"}[unit]
	}
	if set[0] > 0 {
		text += fmt.Sprintf(" from %s %d on", unit, set[0])
	}
	return text, true
}

// daysWords describes dates; "" is every day.
func daysWords(d days) (string, bool) {
	switch d := d.(type) {
	case cronDays:
		text, ok := d.words()
		return strings.TrimSpace(text + monthWords(d.months)), ok
	case quartzDays:
		text, ok := quartzDayWords(d.of)
		if d.set != nil {
			years := []string{}
			for year := 1970; year <= quartzLastYear; year++ {
				if d.set.has(year) {
					years = append(years, fmt.Sprint(year))
				}
			}
			const few = 4
			if len(years) > few {
				return "", false
			}
			return strings.TrimSpace(text + monthWords(d.months) + " in " + listWords(years)), ok
		}
		return strings.TrimSpace(text + monthWords(d.months)), ok
	}
	return "", false
}

// words describes the two day fields from their combined days.
func (c cronDays) words() (string, bool) {
	const all = 1<<32 - 2
	either, both := uint64(all), uint64(0)
	for _, set := range c.days {
		either &= set
		both |= set
	}
	var weekdaysOf uint64
	for day := range 7 {
		whole := true
		for first, set := range c.days {
			named := weekdayDays(1<<day, time.Weekday(first))
			whole = whole && set&named == named
		}
		if whole {
			weekdaysOf |= 1 << day
		}
	}
	matches := func(of func(first int) uint64) bool {
		for first, set := range c.days {
			if set != of(first) {
				return false
			}
		}
		return true
	}
	switch {
	case either == all:
		return "", true
	case either == both:
		return monthDayWords(either)
	case matches(func(first int) uint64 { return weekdayDays(weekdaysOf, time.Weekday(first)) }):
		return "on " + weekdayWords(weekdaySet(weekdaysOf)), true
	case matches(func(first int) uint64 {
		return either | weekdayDays(weekdaysOf, time.Weekday(first))
	}):
		text, ok := monthDayWords(either)
		return text + ", and on " + weekdayWords(weekdaySet(weekdaysOf)), ok
	}
	return "", false
}

func quartzDayWords(d monthDays) (string, bool) {
	switch d := d.(type) {
	case dates:
		return monthDayWords(uint64(d))
	case weekdays:
		if weekdaySet(d)&everyWeekday == everyWeekday {
			return "", true
		}
		return "on " + weekdayWords(weekdaySet(d)), true
	case nthWeekday:
		return fmt.Sprintf("on the %s %s of the month", ordinal(d.nth), d.weekday), true
	case lastWeekday:
		return fmt.Sprintf("on the last %s of the month", time.Weekday(d)), true
	case workday:
		return fmt.Sprintf("on the workday nearest to the %s", ordinal(d.day)), true
	case lastDay:
		return d.words(), true
	}
	return "", false
}

func (l lastDay) words() string {
	text := "the last day of the month"
	if l.before > 0 {
		text = plural.Of(l.before, "day", "days") + " before " + text
	}
	if l.workday {
		return "on the workday nearest to " + text
	}
	if l.before > 0 {
		return text
	}
	return "on " + text
}

// monthDayWords describes days of the month, given as bits.
func monthDayWords(set uint64) (string, bool) {
	const all, few = 1<<32 - 2, 6
	days := members(set)
	if set == all {
		return "", true
	}
	if len(days) > 3 && consecutive(days) {
		return "from the " + ordinal(days[0]) + " to the " + ordinal(days[len(days)-1]), true
	}
	if len(days) > few {
		every, ok := everyOf(days, 32, "day")
		every, _, _ = strings.Cut(every, " from ")
		every, _, _ = strings.Cut(every, " of each")
		return "on " + every + " of the month, from the " + ordinal(days[0]), ok
	}
	var texts []string
	for _, day := range days {
		texts = append(texts, ordinal(day))
	}
	return "on the " + listWords(texts), true
}

func monthWords(months uint64) string {
	const all = 1<<13 - 2
	if months&all == all {
		return ""
	}
	var texts []string
	set := members(months & all)
	if len(set) > 2 && consecutive(set) {
		return " from " + time.Month(set[0]).String() + " to " +
			time.Month(set[len(set)-1]).String()
	}
	for _, month := range set {
		texts = append(texts, time.Month(month).String())
	}
	return " in " + listWords(texts)
}

// weekdayWords describes weekdays, from Monday.
func weekdayWords(set weekdaySet) string {
	const workdays, weekend = 1<<1 | 1<<2 | 1<<3 | 1<<4 | 1<<5, 1<<0 | 1<<6
	switch set & everyWeekday {
	case workdays:
		return "weekdays"
	case weekend:
		return "Saturdays and Sundays"
	}
	var days []int
	for i := 1; i <= 7; i++ {
		if set>>(i%7)&1 == 1 {
			days = append(days, i)
		}
	}
	if len(days) > 3 && consecutive(days) {
		return time.Weekday(days[0]%7).String() + " to " +
			time.Weekday(days[len(days)-1]%7).String()
	}
	var texts []string
	for _, day := range days {
		texts = append(texts, time.Weekday(day%7).String()+"s")
	}
	return listWords(texts)
}

// recurrenceWords spells out the abbreviations of a Recurrence.
func recurrenceWords(text string) (string, bool) {
	spec, err := ParseSpec(text)
	if err != nil || spec.Recurrence == (Recurrence{}) {
		return "", false
	}
	r := spec.Recurrence
	amount, err := parseAmount(r.Every)
	if err != nil {
		return "", false
	}
	words := "every " + strings.TrimPrefix(amount.String(), "1 ")
	if amount.unit == "" {
		words = "every " + durationWords(amount.duration)
	}
	if r.Between != "" {
		words += " between " + r.Between
	}
	if r.At != "" {
		words += " at " + r.At
	}
	if r.On != "" {
		words += " on " + onWords(r.On, amount.unit)
	}
	if r.From != "" {
		words += ", counted from " + r.From
	}
	return words, true
}

// onWords describes the days of a Recurrence; their form depends on the unit.
func onWords(on, unit string) string {
	switch unit {
	case "month":
		var texts []string
		for item := range strings.SplitSeq(on, ",") {
			var day int
			if _, err := fmt.Sscanf(item, "%d", &day); err == nil {
				item = ordinal(day)
			} else if item == "last" {
				item = "last day"
			}
			texts = append(texts, item)
		}
		return "the " + listWords(texts)
	case "year":
		return on
	}
	if set, err := parseWeekdays(on); err == nil {
		return weekdayWords(set)
	}
	return on
}

// durationWords formats whole seconds: "90 seconds", "hour", "1 hour 30 minutes". A single unit has
// no number, because it follows "every".
func durationWords(d time.Duration) string {
	const day = 24 * time.Hour
	units := []struct {
		length time.Duration
		name   string
	}{{day, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}}
	for _, u := range units {
		const few = 100
		switch n := d / u.length; {
		case d%u.length != 0 || n > few && u.length < day:
		case n == 1:
			return u.name
		default:
			return fmt.Sprintf("%d %ss", n, u.name)
		}
	}
	var texts []string
	for _, u := range units {
		if n := d / u.length; n > 0 {
			texts = append(texts, plural.Of(int(n), u.name, u.name+"s"))
			d -= n * u.length
		}
	}
	return strings.Join(texts, " ")
}

// members returns the bits of a set.
func members(set uint64) []int {
	var all []int
	for ; set != 0; set &= set - 1 {
		all = append(all, bits.TrailingZeros64(set))
	}
	return all
}

// consecutive reports whether a sorted list of two or more has no gaps.
func consecutive(list []int) bool {
	return len(list) > 1 && list[len(list)-1]-list[0] == len(list)-1 && slices.IsSorted(list)
}

func listWords(texts []string) string {
	if len(texts) < 2 {
		return strings.Join(texts, "")
	}
	return strings.Join(texts[:len(texts)-1], ", ") + " and " + texts[len(texts)-1]
}

func ordinal(n int) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprintf("%d%s", n, suffix)
}
