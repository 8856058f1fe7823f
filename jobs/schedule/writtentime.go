package schedule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// WrittenTime is a parsed time.
type WrittenTime struct {
	// Times has the parsed time, or both times if a local time exists twice.
	Times []time.Time
	// Note describes the effect of a change of the zone's clocks on a local time; "" for none.
	Note string
}

// ErrTime is wrapped by the error for a text that is not a time.
var ErrTime = errors.New("expected a time such as 2026-01-31T09:00:00Z, 2026-01-31 09:00, " +
	"yesterday 09:00, -2h or now")

// ParseTime parses a time in one of these forms:
//
//	2026-01-31T09:00:00Z      RFC 3339
//	2026-01-31 09:00:00Z      the same with a space, and with UTC instead of Z: as times are shown
//	2026-01-31 09:00          a date and a time of day in the zone, with or without seconds
//	yesterday 09:00           the same for yesterday, today or tomorrow in the zone
//	-2h, +30m, -7d            a duration before or after now; a day has 24 hours
//	now
//
// For a local time that does not exist, the result is the end of the gap.
func ParseTime(text string, zone *time.Location, now time.Time) (WrittenTime, error) {
	if at, relative := parseRelative(text, now); relative {
		return WrittenTime{Times: []time.Time{at.UTC()}}, nil
	}
	if date, clock, named := strings.Cut(text, " "); named {
		if days, known := dayNames()[strings.ToLower(date)]; known {
			// The time of day of now may not exist on that day, so the date is computed in UTC.
			year, month, day := now.In(zone).Date()
			text = time.Date(year, month, day+days, 0, 0, 0, 0, time.UTC).Format(time.DateOnly) +
				" " + clock
		}
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05Z07:00",
		"2006-01-02 15:04:05 UTC"} {
		if at, err := time.Parse(layout, text); err == nil {
			return WrittenTime{Times: []time.Time{at.UTC()}}, nil
		}
	}
	for _, layout := range []string{"2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04",
		"2006-01-02T15:04:05"} {
		if shown, err := time.Parse(layout, text); err == nil {
			return timeOf(shown, zone), nil
		}
	}
	return WrittenTime{}, fmt.Errorf("%w, found %q", ErrTime, text)
}

// dayNames are the days relative to today.
func dayNames() map[string]int { return map[string]int{"yesterday": -1, "today": 0, "tomorrow": 1} }

// maxRelative bounds relative times, so that each has four digits for its year.
const maxRelative = 100 * 365 * 24 * time.Hour

// parseRelative parses "now", and a duration with a sign. It cuts now to seconds.
func parseRelative(text string, now time.Time) (time.Time, bool) {
	if strings.EqualFold(text, "now") {
		return now.Truncate(time.Second), true
	}
	if text == "" || text[0] != '-' && text[0] != '+' {
		return time.Time{}, false
	}
	distance, err := time.ParseDuration(text)
	if number, days := strings.CutSuffix(text, "d"); days {
		var n int64
		if n, err = strconv.ParseInt(number, 10, 32); err == nil &&
			max(n, -n) <= int64(maxRelative/(24*time.Hour)) {
			distance = time.Duration(n) * 24 * time.Hour
		} else if err == nil {
			return time.Time{}, false
		}
	}
	if err != nil || max(distance, -distance) > maxRelative {
		return time.Time{}, false
	}
	return now.Add(distance).Truncate(time.Second), true
}

// shownClock includes the name of the offset, which distinguishes two equal local times.
const shownClock = "15:04:05 MST"

// timeOf returns the times at which clocks of the zone show the date and the time of day that shown
// has in UTC.
func timeOf(shown time.Time, zone *time.Location) WrittenTime {
	const farthest = daySeconds * 3 / 2 // no zone is further from UTC, nor goes further at a change
	var m WrittenTime
	local := shown.Unix()
	for at := local - farthest; ; {
		s := stretchAt(zone, at)
		if from, to := s.start+s.before, s.start+s.offset; s.before < s.offset && from <= local &&
			local < to {
			m.Times = append(m.Times, time.Unix(s.start, 0).UTC())
			m.Note = fmt.Sprintf("%s does not exist in %s: %s; the end of the gap "+
				"is used", shown.Format("2006-01-02 15:04:05"), zone,
				"clocks went from "+clockText(floorMod(from, daySeconds))+" to "+clockText(
					floorMod(to, daySeconds)))
			return m
		}
		if instant := local - s.offset; instant >= s.start && instant < s.end {
			m.Times = append(m.Times, time.Unix(instant, 0).UTC())
		}
		if s.end > local+farthest {
			break
		}
		at = s.end
	}
	if len(m.Times) > 1 {
		m.Note = fmt.Sprintf("%s comes twice in %s, at %s and at %s",
			shown.Format("2006-01-02 15:04:05"), zone,
			m.Times[0].In(zone).Format(shownClock), m.Times[1].In(zone).Format(shownClock))
	}
	return m
}
