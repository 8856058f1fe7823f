package schedule

import (
	"math"
	"time"
)

// ClockChanges is the policy for local times that a change of the zone's clocks skips or repeats.
// The zero value is the default. Schedules that repeat evenly (see the package documentation) are
// due at both occurrences, even if Both is false.
type ClockChanges struct {
	// Skip leaves out a local time that does not exist. Otherwise it is due at the end of the gap.
	Skip bool
	// If Both is true and a local time exists twice, the job is due both times. Otherwise it is due
	// the first time.
	Both bool
}

// local is due when the clocks of a zone show a time that the pattern matches.
//
// It visits the zone's intervals of constant offset. Within an interval, local time and UTC differ
// by that offset. Only at the start of an interval can local times be skipped or repeated.
type local struct {
	pattern   pattern
	zone      *time.Location
	everyHour bool // matches every hour: nothing is lost in a gap
	even      bool // interval-like: due at both occurrences of a time that exists twice
	changes   ClockChanges
}

// stretch is an interval of constant offset, in Unix seconds.
type stretch struct {
	start, end     int64 // Unix time; end is excluded
	offset, before int64 // offset of local time to UTC, in it and just before it
}

func stretchAt(zone *time.Location, instant int64) stretch {
	t := time.Unix(instant, 0).In(zone)
	start, end := t.ZoneBounds()
	s := stretch{start: math.MinInt64, end: math.MaxInt64, offset: offsetOf(t)}
	s.before = s.offset
	if !start.IsZero() {
		s.start = start.Unix()
		s.before = offsetOf(start.Add(-time.Second))
	}
	if !end.IsZero() {
		s.end = end.Unix()
	}
	if s.end <= instant {
		// On 31 December of leap years beyond the zone's table (2037), Go 1.26's
		// ZoneBounds gives that day's beginning: it counts 365 days a year.
		s.end = instant - instant%daySeconds + daySeconds
	}
	return s
}

func offsetOf(t time.Time) int64 {
	_, offset := t.Zone()
	return int64(offset)
}

// after returns where to search next for a match after the interval. That is its end; if both are
// far away, it is a time near the match. No zone is further from UTC than farthest, and no change
// of clocks repeats a longer time than that.
func (s stretch) after(instant, match int64) int64 {
	const farthest = daySeconds * 3 / 2
	if s.end-instant < farthest {
		return s.end
	}
	return max(s.end, match-farthest)
}

// missed reports whether a match lies in local times that were skipped at the start of the
// interval.
func (l *local) missed(s stretch, ahead *lookahead) bool {
	if l.everyHour || l.changes.Skip || s.offset <= s.before {
		return false
	}
	match, ok := ahead.next(s.start + s.before)
	return ok && match < s.start+s.offset
}

func (l *local) next(t time.Time) (time.Time, bool) {
	earliest := t.Unix() + 1
	ahead := lookahead{pattern: &l.pattern}
	for earliest < maxInstant {
		s := stretchAt(l.zone, earliest)
		if earliest == s.start && l.missed(s, &ahead) {
			return time.Unix(earliest, 0), true
		}
		from := earliest + s.offset
		if !l.even && !l.changes.Both && s.offset < s.before {
			from = max(from, s.start+s.before)
		}
		match, ok := ahead.next(from)
		if !ok {
			return time.Time{}, false
		}
		if match-s.offset < s.end {
			return time.Unix(match-s.offset, 0), true
		}
		earliest = s.after(earliest, match)
	}
	return time.Time{}, false
}

// maxInstant is the start of the year 10000.
const maxInstant = 253402300800

// lookahead caches the last answer of the pattern, because several intervals before a match ask for
// it.
type lookahead struct {
	pattern     *pattern
	from, match int64
	ok          bool
}

func (a *lookahead) next(from int64) (int64, bool) {
	if !a.ok || from < a.from || from > a.match {
		a.from = from
		a.match, a.ok = a.pattern.next(from)
	}
	return a.match, a.ok
}
