package schedule

import (
	"strings"
	"time"
)

// Occurrence is a due as a preview shows it.
type Occurrence struct {
	Due time.Time // in UTC
	// ExcludedBy is the calendar for which the due is not run; "" for none.
	ExcludedBy string
	// Change says in words how a change of the zone's clocks bears on the due;
	// "" if none does.
	Change string
}

// Preview returns the first n dues after from, or as many as there are, and if
// excluded is true also those between them that calendars exclude; of these
// it shows five hundred at most.
func (s Schedule) Preview(from time.Time, n int, excluded bool) []Occurrence {
	var all []Occurrence
	const most = 500
	hidden := 0
	offset := offsetOf(from.In(s.Zone()))
	for len(all)-hidden < n {
		find := s.Next
		if excluded {
			find = s.nominal
		}
		due := find(from)
		if due.IsZero() {
			break
		}
		o := Occurrence{Due: due, Change: s.change(due, offset)}
		if calendar, _ := s.excluding(due); calendar != nil {
			o.ExcludedBy = calendar.name
			if hidden++; hidden > most {
				excluded = false
				hidden--
				continue
			}
		}
		all = append(all, o)
		from, offset = due, offsetOf(due.In(s.Zone()))
	}
	return all
}

// change says how a change of clocks bears on a due that follows one at which
// local time was offset to UTC.
func (s Schedule) change(due time.Time, offset int64) string {
	var words []string
	if l, ok := s.rule.(*local); ok {
		words = l.change(due.Unix())
	}
	now := offsetOf(due.In(s.Zone()))
	switch by := time.Duration(now-offset) * time.Second; {
	case by > 0:
		words = append(words, "clocks went forward by "+shortDuration(by))
	case by < 0:
		words = append(words, "clocks went back by "+shortDuration(-by))
	}
	return strings.Join(words, "; ")
}

// change says what a change of clocks did to the local time that is due.
func (l *local) change(due int64) []string {
	within := stretchAt(l.zone, due)
	after := stretchAt(l.zone, min(within.end, maxInstant))
	switch {
	case due == within.start && l.missed(within, &lookahead{pattern: &l.pattern}):
		return []string{shownGap(within.start+within.before, within.start+within.offset) + " does not exist: run after the gap"}
	case after.offset < within.offset && within.end-due <= within.offset-after.offset:
		return []string{clockText(floorMod(due+within.offset, daySeconds)) + " comes twice: the first time"}
	case within.offset < within.before && due-within.start < within.before-within.offset:
		return []string{clockText(floorMod(due+within.offset, daySeconds)) + " comes twice: the second time"}
	}
	return nil
}

func shownGap(from, to int64) string {
	if to-from < daySeconds {
		return clockText(floorMod(from, daySeconds)) + " to " + clockText(floorMod(to, daySeconds))
	}
	layout := "2006-01-02 15:04"
	return time.Unix(from, 0).UTC().Format(layout) + " to " + time.Unix(to, 0).UTC().Format(layout)
}
