package schedule

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// CalendarSpec is a calendar as it is written. Each field of a TimesSpec is a kind of times. The
// calendar excludes a scheduled time if at least one kind in Exclude contains it, or if at least
// one kind in Only does not contain it. So a scheduled time must be in all kinds of Only. A kind
// without entries has no effect.
type CalendarSpec struct {
	Name string
	// Zone is the zone of dates, weekdays and times of day; nil: the zone of each schedule.
	Zone    *time.Location
	Exclude TimesSpec
	Only    TimesSpec
}

// TimesSpec is a set of times of several kinds, as they are written.
type TimesSpec struct {
	Dates    []string // 2026-12-24, 2026-12-24..2027-01-02, and for each year 12-24 or 12-24..01-02
	Weekdays []string // sat, or sat-sun
	Windows  []string // 22:00-06:00, without the end
	// cron with 5 fields, for whole minutes; cron with 6 fields, for seconds; or "quartz:" followed
	// by an expression of Quartz
	Cron  []string
	Files []HolidayFile
}

// HolidayFile is a file with dates, which are added to the Dates of the TimesSpec. If its name is
// *.ics, or its content begins as iCalendar, it is iCalendar. Otherwise each line has a date as in
// Dates, and optional text after a space; # begins a comment.
type HolidayFile struct {
	Name string
	Data []byte
}

func (t TimesSpec) empty() bool {
	return len(t.Dates)+len(t.Weekdays)+len(t.Windows)+len(t.Cron)+len(t.Files) == 0
}

// CalendarMistake is one mistake in a CalendarSpec.
type CalendarMistake struct {
	Key     string // such as exclude.dates[2]; "" for the calendar as a whole
	File    string // the file; "" for none
	Line    int    // in the file, from 1
	Message string // what was found and what is expected
}

// Error returns the mistake with its file, line and key.
func (m *CalendarMistake) Error() string {
	var place string
	if m.File != "" {
		place = fmt.Sprintf("%s:%d: ", m.File, m.Line)
	}
	if m.Key != "" {
		place += m.Key + ": "
	}
	return place + m.Message
}

// NewCalendar returns the calendar that spec describes. The error joins every
// mistake, each a *CalendarMistake.
func NewCalendar(spec CalendarSpec) (*Calendar, error) {
	p := calendarParser{}
	c := &Calendar{name: spec.Name, zone: spec.Zone}
	if spec.Name == "" {
		p.report("name", "found nothing, expected the calendar's name")
	}
	if spec.Exclude.empty() && spec.Only.empty() {
		p.report("", "found neither exclude nor only, expected one of them with dates, weekdays, "+
			"windows, cron or files")
	}
	c.exclude = p.times("exclude", spec.Exclude)
	c.only = p.times("only", spec.Only)
	p.checkExclusions(c.exclude)
	if len(p.mistakes) > 0 {
		return nil, errors.Join(p.mistakes...)
	}
	c.fingerprint = c.hash()
	return c, nil
}

type calendarParser struct{ mistakes []error }

func (p *calendarParser) report(key, format string, args ...any) {
	p.mistakes = append(p.mistakes,
		&CalendarMistake{Key: key, Message: fmt.Sprintf(format, args...)})
}

// checkExclusions reports sets that exclude every time.
func (p *calendarParser) checkExclusions(sets []timeSet) {
	for _, set := range sets {
		switch s := set.(type) {
		case weekdaySet:
			if s == everyWeekday {
				p.report("exclude.weekdays",
					"found every day of the week, expected fewer: nothing would be run")
			}
		case windows:
			if s.allDay() {
				p.report("exclude.windows", "found windows that leave nothing of the day, "+
					"expected fewer: nothing would be run")
			}
		}
	}
}

// each parses the items of one kind.
func (p *calendarParser) each(key string, items []string, read func(text string) error) {
	for i, item := range items {
		if err := read(strings.TrimSpace(item)); err != nil {
			p.report(fmt.Sprintf("%s[%d]", key, i), "%v", err)
		}
	}
}

func (p *calendarParser) times(part string, spec TimesSpec) []timeSet {
	var sets []timeSet
	dates := &dateSet{}
	p.each(part+".dates", spec.Dates, dates.add)
	for i, file := range spec.Files {
		p.file(fmt.Sprintf("%s.files[%d]", part, i), file, dates)
	}
	if dates.merge(); !dates.empty() {
		sets = append(sets, dates)
	}
	var days weekdaySet
	p.each(part+".weekdays", spec.Weekdays, func(text string) error {
		set, err := parseWeekdays(text)
		days |= set
		return err
	})
	if days != 0 {
		sets = append(sets, days)
	}
	var spans windows
	p.each(part+".windows", spec.Windows, func(text string) error {
		from, length, err := parseWindow(text)
		spans = append(spans, window{from, length})
		return err
	})
	if len(spans) > 0 {
		sets = append(sets, spans)
	}
	var crons cronSet
	p.each(part+".cron", spec.Cron, func(text string) error {
		times, err := parseCronTimes(text)
		crons = append(crons, times)
		return err
	})
	if len(crons) > 0 {
		sets = append(sets, crons)
	}
	return sets
}

// parseCronTimes parses an expression as a set of times.
func parseCronTimes(text string) (cronTimes, error) {
	spec, err := ParseSpec(text)
	if err == nil && spec.Cron == "" && spec.Quartz == "" {
		err = errors.New("expected cron or quartz: and an expression")
	}
	if err != nil {
		return cronTimes{}, fmt.Errorf("found %q: %w", text, err)
	}
	rule, err := spec.rule(time.UTC)
	if err != nil {
		return cronTimes{}, fmt.Errorf("found %q: %w", text, err)
	}
	l, ok := rule.(*local)
	if !ok {
		return cronTimes{}, fmt.Errorf("found %q, expected an expression with fields", text)
	}
	return cronTimes{text: spec.String(), pattern: l.pattern,
		minutes: spec.Cron != "" && len(strings.Fields(text)) != 6}, nil
}

// add parses a date or a range of dates.
func (d *dateSet) add(text string) error {
	low, high, ranged := strings.Cut(text, "..")
	low, high = strings.TrimSpace(low), strings.TrimSpace(high)
	if !ranged {
		high = low
	}
	if month, day, err := parseMonthDay(low); err == nil {
		last, lastDay, err := parseMonthDay(high)
		if err != nil {
			return err
		}
		d.yearly = append(d.yearly, yearRange{monthDay{month, day}, monthDay{last, lastDay}})
		return nil
	}
	first, err := parseDate(low)
	if err != nil {
		return fmt.Errorf("found %q, expected a date such as 2026-12-24, one of each year such "+
			"as 12-24, or a range such as 2026-12-24..2027-01-02", text)
	}
	last, err := parseDate(high)
	if err != nil {
		return err
	}
	if last.number() < first.number() {
		return fmt.Errorf("found %q, expected a range that ends on its first day or later", text)
	}
	d.ranges = append(d.ranges, dateRange{first.number(), last.number()})
	return nil
}

const maxHolidayFile = 1 << 20 // bytes

func (p *calendarParser) file(key string, file HolidayFile, dates *dateSet) {
	at := func(line int, format string, args ...any) {
		p.mistakes = append(p.mistakes,
			&CalendarMistake{Key: key, File: file.Name, Line: max(line, 1),
				Message: fmt.Sprintf(format, args...)})
	}
	before := len(p.mistakes)
	found := dateSet{}
	switch extension := strings.ToLower(filepath.Ext(file.Name)); {
	case len(file.Data) > maxHolidayFile:
		at(1, "found %d bytes, expected at most %d", len(file.Data), maxHolidayFile)
	case extension == ".ics", strings.HasPrefix(string(file.Data), "BEGIN:VCALENDAR"):
		found.take(readEvents(string(file.Data), at))
	default:
		found.readLines(string(file.Data), at)
	}
	if len(p.mistakes) == before && found.empty() {
		at(1, "found no dates, expected at least one")
	}
	dates.ranges = append(dates.ranges, found.ranges...)
	dates.yearly = append(dates.yearly, found.yearly...)
	dates.events = append(dates.events, found.events...)
}

// take adds events; those without times of day or repetitions are stored as ranges.
func (d *dateSet) take(events []event) {
	for _, e := range events {
		if days, whole := e.whole(); whole {
			d.ranges = append(d.ranges, days)
		} else {
			d.events = append(d.events, e)
		}
	}
}

// readLines parses a list of dates, one a line.
func (d *dateSet) readLines(text string, report func(line int, format string, args ...any)) {
	number := 0
	for line := range strings.SplitSeq(strings.TrimPrefix(text, "\ufeff"), "\n") {
		number++
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if err := d.add(words[0]); err != nil {
			report(number, "%v", err)
		}
	}
}
