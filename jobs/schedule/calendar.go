package schedule

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strings"
	"time"
)

// Calendar is a named set of times that excludes scheduled times. It is immutable and may be used
// concurrently.
type Calendar struct {
	name        string
	zone        *time.Location // nil: that of each schedule
	exclude     []timeSet      // a scheduled time in any of them is excluded
	only        []timeSet      // a scheduled time outside of any of them is excluded
	fingerprint string
}

// Name returns the calendar's name.
func (c *Calendar) Name() string { return c.name }

// moment is a time and what a clock shows then, both in seconds since 1970.
type moment struct{ instant, local int64 }

// timeSet is one kind of content of a calendar.
type timeSet interface {
	// has reports whether the time is in the set. stays is a number of seconds, at least one, for
	// which the answer stays the same while clocks do not change.
	has(m moment) (in bool, stays int64)
	// lines describes the contents; equal contents have equal lines.
	lines() []string
}

// forever is longer than the range of scheduled times.
const forever = math.MaxInt64 / 4

// excludes reports whether the calendar excludes a time. If it does, until is a time up to which it
// excludes all times.
func (c *Calendar) excludes(t time.Time, zone *time.Location) (until time.Time, excluded bool) {
	if c.zone != nil {
		zone = c.zone
	}
	s := stretchAt(zone, t.Unix())
	m := moment{instant: t.Unix(), local: t.Unix() + s.offset}
	longest := int64(0)
	for _, set := range c.exclude {
		if in, stays := set.has(m); in {
			longest = max(longest, stays)
		}
	}
	for _, set := range c.only {
		if in, stays := set.has(m); !in {
			longest = max(longest, stays)
		}
	}
	if longest == 0 {
		return time.Time{}, false
	}
	return time.Unix(min(m.instant+longest, s.end, maxInstant), 0), true
}

// excluding returns the calendar that excludes a scheduled time, or nil. until is a time up to
// which this calendar excludes all times.
func (s Schedule) excluding(scheduledAt time.Time) (calendar *Calendar, until time.Time) {
	if scheduledAt.IsZero() {
		return nil, scheduledAt
	}
	for _, c := range s.plan().calendars {
		if end, excluded := c.excludes(scheduledAt, s.Zone()); excluded {
			return c, end
		}
	}
	return nil, scheduledAt
}

// Excluded reports whether t is a scheduled time that a calendar excludes, and returns the
// calendar's name.
func (s Schedule) Excluded(t time.Time) (calendar string, ok bool) {
	if s.nominal(t.Add(-time.Nanosecond)) != t.UTC() {
		return "", false
	}
	c, _ := s.excluding(t)
	if c == nil {
		return "", false
	}
	return c.name, true
}

// ExcludedAt reports whether a calendar excludes t, even if t is no scheduled time, and returns the
// calendar's name. It is for schedules without scheduled times of their own.
func (s Schedule) ExcludedAt(t time.Time) (calendar string, ok bool) {
	c, _ := s.excluding(t)
	if c == nil {
		return "", false
	}
	return c.name, true
}

// hash returns the fingerprint of the calendar's contents, without its name.
func (c *Calendar) hash() string {
	var text strings.Builder
	if c.zone != nil {
		text.WriteString("zone " + c.zone.String() + "\n")
	}
	for _, part := range []struct {
		name string
		sets []timeSet
	}{{"exclude", c.exclude}, {"only", c.only}} {
		for _, set := range part.sets {
			for _, line := range set.lines() {
				text.WriteString(part.name + " " + line + "\n")
			}
		}
	}
	sum := sha256.Sum256([]byte(text.String()))
	return hex.EncodeToString(sum[:8])
}
