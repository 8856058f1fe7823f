package schedule

import (
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/durations"
)

// Occurrence is a scheduled time as a preview shows it.
type Occurrence struct {
	ScheduledAt time.Time // in UTC
	// ExcludedBy is the calendar that excludes the scheduled time; "" for none.
	ExcludedBy string
	// Change describes the effect of a change of the zone's clocks on the scheduled time; "" for
	// none.
	Change string
}

// Preview returns the first n scheduled times that are later than start, or all if there are fewer.
// If excluded is true, it also returns the scheduled times between them that calendars exclude, at
// most five hundred.
func (s Schedule) Preview(start time.Time, n int, excluded bool) []Occurrence {
	var all []Occurrence
	const most = 500
	hidden := 0
	offset := offsetOf(start.In(s.Zone()))
	for len(all)-hidden < n {
		find := s.Next
		if excluded {
			find = s.nominal
		}
		scheduledAt := find(start)
		if scheduledAt.IsZero() {
			break
		}
		o := Occurrence{ScheduledAt: scheduledAt, Change: s.change(scheduledAt, offset)}
		if calendar, _ := s.excluding(scheduledAt); calendar != nil {
			o.ExcludedBy = calendar.name
			if hidden++; hidden > most {
				excluded = false
				hidden--
				continue
			}
		}
		all = append(all, o)
		start, offset = scheduledAt, offsetOf(scheduledAt.In(s.Zone()))
	}
	return all
}

// change describes the effect of a change of clocks on a scheduled time, given the offset to UTC at
// the previous one.
func (s Schedule) change(scheduledAt time.Time, offset int64) string {
	var words []string
	if l, ok := s.plan().rule.(*local); ok {
		words = l.change(scheduledAt.Unix())
	}
	now := offsetOf(scheduledAt.In(s.Zone()))
	switch by := time.Duration(now-offset) * time.Second; {
	case by > 0:
		words = append(words, "clocks went forward by "+durations.Short(by))
	case by < 0:
		words = append(words, "clocks went back by "+durations.Short(-by))
	}
	return strings.Join(words, "; ")
}

// change describes what a change of clocks did to the local time that is due.
func (l *local) change(scheduledAt int64) []string {
	within := stretchAt(l.zone, scheduledAt)
	after := stretchAt(l.zone, min(within.end, maxInstant))
	switch {
	case scheduledAt == within.start && l.missed(within, &lookahead{pattern: &l.pattern}):
		return []string{shownGap(within.start+within.before, within.start+within.offset) +
			" does not exist: run after the gap"}
	case after.offset < within.offset && within.end-scheduledAt <= within.offset-after.offset:
		return []string{clockText(floorMod(scheduledAt+within.offset, daySeconds)) +
			" comes twice: the first time"}
	case within.offset < within.before && scheduledAt-within.start < within.before-within.offset:
		return []string{clockText(floorMod(scheduledAt+within.offset, daySeconds)) +
			" comes twice: the second time"}
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
