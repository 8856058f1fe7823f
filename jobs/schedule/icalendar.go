package schedule

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// icsReader collects the events of a file. It reads VEVENT with DTSTART, DTEND or DURATION, RRULE,
// RDATE, EXDATE, RECURRENCE-ID and STATUS. It ignores other components and properties, including
// VTIMEZONE, because zones are those of IANA.
type icsReader struct {
	report   func(line int, format string, args ...any)
	inside   []string // open components
	current  []icsProperty
	begun    int // line of the current event
	events   []event
	byUID    map[string]int
	replaced []replacement
}

// replacement is an occurrence of a repeating event that is replaced by another event.
type replacement struct {
	uid string
	id  icsProperty // RECURRENCE-ID
}

const maxEvents = 5000

// readEvents parses an iCalendar file and reports its mistakes.
func readEvents(text string, report func(line int, format string, args ...any)) []event {
	r := icsReader{report: report, byUID: map[string]int{}}
	calendars := 0
	last := 1
	for _, line := range unfold(text) {
		last = line.number
		p, err := parseProperty(line)
		if err != nil {
			report(line.number, "%v", err)
			return nil
		}
		if p.name == "BEGIN" && len(r.inside) == 0 {
			calendars++
		}
		if !r.take(p) {
			return nil
		}
	}
	switch {
	case len(r.inside) > 0:
		report(last, "found the end of the file within %s, expected END:%s",
			r.inside[len(r.inside)-1], r.inside[len(r.inside)-1])
	case calendars == 0:
		report(1, "found no BEGIN:VCALENDAR, expected an iCalendar file")
	}
	r.replace()
	return r.events
}

func cutText(text string) string {
	const most = 60
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// take processes a property. It returns false if the rest of the file cannot be read.
func (r *icsReader) take(p icsProperty) bool {
	component := strings.ToUpper(p.value)
	switch p.name {
	case "BEGIN":
		const deepest = 16
		if len(r.inside) == 0 && component != "VCALENDAR" || len(r.inside) == deepest {
			r.report(p.line, "found BEGIN:%s, expected BEGIN:VCALENDAR", cutText(component))
			return false
		}
		r.inside = append(r.inside, component)
		if component == "VEVENT" {
			r.current, r.begun = nil, p.line
		}
	case "END":
		if n := len(r.inside); n == 0 || r.inside[n-1] != component {
			r.report(p.line, "found END:%s, expected the end of what was begun last",
				cutText(component))
			return false
		}
		r.inside = r.inside[:len(r.inside)-1]
		if component == "VEVENT" {
			return r.finish()
		}
	default:
		if len(r.inside) == 0 {
			r.report(p.line, "found %s outside of a calendar, expected BEGIN:VCALENDAR",
				cutText(p.name))
			return false
		}
		if r.inside[len(r.inside)-1] == "VEVENT" {
			r.current = append(r.current, p)
		}
	}
	return true
}

// finish creates an event from the current properties.
func (r *icsReader) finish() bool {
	if len(r.events) >= maxEvents {
		r.report(r.begun, "found more than %d events, expected fewer", maxEvents)
		return false
	}
	e, err := r.event()
	if err != nil {
		var at *lineError
		line := r.begun
		if errors.As(err, &at) {
			line = at.line
		}
		r.report(line, "%v", err)
		return true
	}
	uid, cancelled := r.value("UID"), strings.EqualFold(r.value("STATUS"), "CANCELLED")
	if id := r.property("RECURRENCE-ID"); id != nil {
		if _, err := parseICSTime(*id, id.value); err != nil {
			r.report(id.line, "RECURRENCE-ID: %v", err)
			return true
		}
		if id.params["RANGE"] != "" {
			r.report(id.line, "RECURRENCE-ID: found RANGE=%s, expected a single occurrence",
				cutText(id.params["RANGE"]))
			return true
		}
		r.replaced = append(r.replaced, replacement{uid, *id})
	} else if uid != "" && !cancelled {
		r.byUID[uid] = len(r.events)
	}
	if !cancelled {
		r.events = append(r.events, e)
	}
	return true
}

// replace removes replaced occurrences from their events. RECURRENCE-ID is the time at which the
// repeating event has the occurrence.
func (r *icsReader) replace() {
	for _, other := range r.replaced {
		i, ok := r.byUID[other.uid]
		if !ok {
			continue
		}
		e := &r.events[i]
		day, err := r.dayOf(other.id, other.id.value, *e)
		if err != nil {
			r.report(other.id.line, "RECURRENCE-ID: %v", err)
			continue
		}
		e.except = append(e.except, day)
	}
}

type lineError struct {
	line int
	name string
	err  error
}

func (e *lineError) Error() string { return e.name + ": " + e.err.Error() }
func (e *lineError) Unwrap() error { return e.err }

func (r *icsReader) property(name string) *icsProperty {
	i := slices.IndexFunc(r.current, func(p icsProperty) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return &r.current[i]
}

func (r *icsReader) value(name string) string {
	if p := r.property(name); p != nil {
		return p.value
	}
	return ""
}

func (r *icsReader) event() (event, error) {
	start := r.property("DTSTART")
	if start == nil {
		return event{}, errors.New("found an event without DTSTART, expected one")
	}
	begin, err := parseICSTime(*start, start.value)
	if err != nil {
		return event{}, &lineError{start.line, "DTSTART", err}
	}
	e := event{first: begin.day, clock: begin.clock, zone: begin.zone}
	if err := r.lasts(&e, begin); err != nil {
		return event{}, err
	}
	for _, p := range r.current {
		if err := r.recurs(&e, p); err != nil {
			return event{}, &lineError{p.line, p.name, err}
		}
	}
	if long := e.days > maxEventDays || e.seconds > maxEventDays*daySeconds; long &&
		(e.repeats != nil || len(e.more) > 0) {
		return event{}, &lineError{start.line, "DTSTART",
			fmt.Errorf("found an event that repeats and lasts more than %d days, expected less",
				maxEventDays)}
	}
	return e, nil
}

// lasts parses DTEND or DURATION.
func (r *icsReader) lasts(e *event, begin icsTime) error {
	end, duration := r.property("DTEND"), r.property("DURATION")
	switch {
	case end != nil:
		to, err := parseICSTime(*end, end.value)
		if err == nil && to.allDay() != begin.allDay() {
			err = errors.New("found a date with a time of day, expected both like DTSTART")
		}
		if err == nil {
			e.days, e.seconds = to.day-begin.day, to.instant()-begin.instant()
			if e.seconds <= 0 {
				err = fmt.Errorf("found %q, expected an end after DTSTART", end.value)
			}
		}
		if err != nil {
			return &lineError{end.line, "DTEND", err}
		}
	case duration != nil:
		seconds, err := parseICSDuration(duration.value)
		if err == nil && begin.allDay() && seconds%daySeconds != 0 {
			err = fmt.Errorf("found %q with a date, expected whole days", duration.value)
		}
		if err != nil {
			return &lineError{duration.line, "DURATION", err}
		}
		e.days, e.seconds = seconds/daySeconds, seconds
	case begin.allDay():
		e.days = 1
	default:
		return errors.New("found an event with a time of day but neither DTEND nor DURATION, " +
			"expected one of them")
	}
	if begin.allDay() {
		e.seconds = 0
	} else {
		e.days = 0
	}
	return nil
}

func (r *icsReader) recurs(e *event, p icsProperty) (err error) {
	switch p.name {
	case "RRULE":
		if e.repeats != nil {
			return errors.New("found a second rule, expected one")
		}
		var until string
		if e.repeats, until, err = parseRepeats(p.value, e.first); err != nil || until == "" {
			return err
		}
		e.repeats.last, err = untilDay(until, *e)
		return err
	case "EXDATE":
		e.except, err = r.dayList(p, *e, e.except)
		return err
	case "RDATE":
		e.more, err = r.dayList(p, *e, e.more)
		return err
	case "EXRULE":
		return errors.New("not supported, expected EXDATE")
	}
	return nil
}

func (r *icsReader) dayList(p icsProperty, e event, days []int64) ([]int64, error) {
	for text := range strings.SplitSeq(p.value, ",") {
		day, err := r.dayOf(p, text, e)
		if err != nil {
			return nil, err
		}
		days = append(days, day)
	}
	return days, nil
}

// dayOf returns the day, in the event's zone, of an occurrence. Its time of day must be that of
// DTSTART.
func (r *icsReader) dayOf(p icsProperty, text string, e event) (int64, error) {
	at, err := parseICSTime(p, text)
	if err != nil {
		return 0, err
	}
	if at.allDay() {
		return at.day, nil
	}
	if e.days > 0 {
		return 0, fmt.Errorf("found %q with a time of day, expected a date like DTSTART", text)
	}
	if e.zone != nil && at.zone != nil {
		at.day, at.clock = dayAndClock(time.Unix(at.instant(), 0).In(e.zone))
	}
	if at.clock != e.clock {
		return 0, fmt.Errorf("found %q, expected the time of day of DTSTART", text)
	}
	return at.day, nil
}

// untilDay returns the last day on which an occurrence may start.
func untilDay(text string, e event) (int64, error) {
	at, err := parseICSTime(icsProperty{}, text)
	if err != nil {
		return math.MaxInt64, fmt.Errorf("UNTIL: %w", err)
	}
	if at.allDay() || e.days > 0 {
		return at.day, nil
	}
	if at.zone != nil && e.zone != nil {
		at.day, at.clock = dayAndClock(time.Unix(at.instant(), 0).In(e.zone))
	}
	if at.clock < e.clock {
		at.day--
	}
	return at.day, nil
}
