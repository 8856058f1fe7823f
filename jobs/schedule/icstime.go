package schedule

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/zone"
)

func dayAndClock(shown time.Time) (day int64, clock int) {
	year, month, number := shown.Date()
	return date{year, month, number}.number(), shown.Hour()*3600 + shown.Minute()*60 +
		shown.Second()
}

// icsTime is a date, or a date with a time of day, with or without a zone.
type icsTime struct {
	day   int64
	clock int // -1: none
	zone  *time.Location
}

func (t icsTime) allDay() bool { return t.clock < 0 }

// instant returns seconds. Times without a zone can only be compared with each other.
func (t icsTime) instant() int64 {
	zone := t.zone
	if zone == nil {
		zone = time.UTC
	}
	d := dateOf(t.day)
	return time.Date(d.year, d.month, d.day, 0, 0, max(t.clock, 0), 0, zone).Unix()
}

// parseICSTime parses 20261224, 20261224T090000 and 20261224T090000Z.
func parseICSTime(p icsProperty, text string) (icsTime, error) {
	text = strings.TrimSpace(text)
	if kind := p.params["VALUE"]; kind != "" && kind != "DATE" && kind != "DATE-TIME" {
		return icsTime{}, fmt.Errorf("found VALUE=%s, expected DATE or DATE-TIME", cutText(kind))
	}
	wrong := fmt.Errorf("found %q, expected a date such as 20261224 or a time such as "+
		"20261224T090000Z", cutText(text))
	at := icsTime{clock: -1}
	plain, utc := strings.CutSuffix(text, "Z")
	layout := "20060102"
	if strings.Contains(plain, "T") {
		layout = "20060102T150405"
	} else if utc {
		return at, wrong
	}
	t, err := time.Parse(layout, plain)
	if err != nil || len(plain) != len(layout) || t.Year() < 1 {
		return at, wrong
	}
	day, clock := dayAndClock(t)
	at.day = day
	if layout == "20060102" {
		return at, nil
	}
	at.clock = clock
	name := p.params["TZID"]
	switch {
	case utc:
		at.zone = time.UTC
	case name != "":
		if at.zone, err = zone.Load(name); err != nil {
			return at, fmt.Errorf("found the zone %q, expected one by its IANA name, such as "+
				"Europe/Berlin", cutText(name))
		}
	}
	return at, nil
}

// parseICSDuration parses P1D, PT1H30M and P2W.
func parseICSDuration(text string) (seconds int64, err error) {
	wrong := fmt.Errorf("found %q, expected a duration such as P1D or PT1H30M", cutText(text))
	rest, ok := strings.CutPrefix(strings.TrimPrefix(text, "+"), "P")
	if !ok || rest == "" {
		return 0, wrong
	}
	units := map[byte]int64{'W': 7 * daySeconds, 'D': daySeconds}
	for rest != "" {
		if after, clock := strings.CutPrefix(rest, "T"); clock {
			rest, units = after, map[byte]int64{'H': 3600, 'M': 60, 'S': 1}
		}
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.ParseUint(rest[:digits], 10, 20)
		if err != nil || digits == len(rest) || units[rest[digits]] == 0 {
			return 0, wrong
		}
		seconds += int64(n) * units[rest[digits]]
		rest = rest[digits+1:]
	}
	if seconds == 0 || seconds > maxCount*daySeconds {
		return 0, wrong
	}
	return seconds, nil
}
