package schedule

import (
	"errors"
	"fmt"
	"time"
)

// Moment is an instant as somebody wrote it.
type Moment struct {
	// Instants that were meant: one, or both where a local time exists twice.
	Instants []time.Time
	// Note says in words what a change of the zone's clocks makes of a local
	// time; "" if nothing.
	Note string
}

// ErrMoment is wrapped by the error for what is no instant.
var ErrMoment = errors.New("expected an instant such as 2026-01-31T09:00:00Z, or a local time " +
	"such as 2026-01-31 09:00")

// ParseMoment reads an instant in RFC 3339's form, or a date and a time of day
// as a clock of the zone shows it. One that clocks leave out is the first instant
// after the gap.
func ParseMoment(text string, zone *time.Location) (Moment, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return Moment{Instants: []time.Time{at.UTC()}}, nil
	}
	for _, layout := range []string{"2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04",
		"2006-01-02T15:04:05"} {
		if shown, err := time.Parse(layout, text); err == nil {
			return momentOf(shown, zone), nil
		}
	}
	return Moment{}, fmt.Errorf("%w, found %q", ErrMoment, text)
}

// shownClock names the offset that tells two equal clocks apart.
const shownClock = "15:04:05 MST"

// momentOf finds when clocks of the zone show what shown does in UTC.
func momentOf(shown time.Time, zone *time.Location) Moment {
	const farthest = daySeconds * 3 / 2 // no zone is further from UTC, nor goes further at a change
	var m Moment
	local := shown.Unix()
	for at := local - farthest; ; {
		s := stretchAt(zone, at)
		if from, to := s.start+s.before, s.start+s.offset; s.before < s.offset && from <= local &&
			local < to {
			m.Instants = append(m.Instants, time.Unix(s.start, 0).UTC())
			m.Note = fmt.Sprintf("%s does not exist in %s: %s; the first instant after the gap "+
				"is meant", shown.Format("2006-01-02 15:04:05"), zone,
				"clocks went from "+clockText(floorMod(from, daySeconds))+" to "+clockText(
					floorMod(to, daySeconds)))
			return m
		}
		if instant := local - s.offset; instant >= s.start && instant < s.end {
			m.Instants = append(m.Instants, time.Unix(instant, 0).UTC())
		}
		if s.end > local+farthest {
			break
		}
		at = s.end
	}
	if len(m.Instants) > 1 {
		m.Note = fmt.Sprintf("%s comes twice in %s, at %s and at %s",
			shown.Format("2006-01-02 15:04:05"), zone,
			m.Instants[0].In(zone).Format(shownClock), m.Instants[1].In(zone).Format(shownClock))
	}
	return m
}
