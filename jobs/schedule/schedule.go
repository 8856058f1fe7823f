package schedule

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Schedule computes when a job is due. The zero Schedule is never due: its job is only triggered.
// Schedules are immutable and may be used concurrently. Copies share their memory, and are equal by
// ==. Two schedules that were parsed separately are not, even from the same text.
type Schedule struct{ shared *plan } // nil in the zero Schedule

// plan is what a Schedule consists of. It does not change.
type plan struct {
	text      string
	zone      *time.Location
	rule      rule // nil: never due by itself
	after     []string
	changes   ClockChanges
	calendars []*Calendar
	jitter    time.Duration
}

// plan returns the plan of s; that of the zero Schedule is zero.
func (s Schedule) plan() *plan {
	if s.shared == nil {
		return &plan{}
	}
	return s.shared
}

// rule computes scheduled times without calendars.
type rule interface {
	// next returns the first scheduled time after t, or false when there is none.
	next(t time.Time) (time.Time, bool)
}

// lastYear is the last year with scheduled times: later ones have no RFC 3339 form.
const lastYear = 9999

// Next returns the first scheduled time after t that no calendar excludes, or the zero time if
// there is none. Scheduled times are whole seconds in UTC from the years 1 to 9999, and may be
// compared with ==. A calendar excludes ranges of time, such as days. Next ends the search, and
// returns the zero time, after 4,000 such ranges in a row that take two years or longer, and after
// 300,000 ranges in any case.
func (s Schedule) Next(t time.Time) time.Time {
	scheduledAt := s.nominal(t)
	for n := 0; n < maxExcluded &&
		(n < fewExcluded || scheduledAt.Sub(t) < longExcluded); n++ {
		calendar, until := s.excluding(scheduledAt)
		if calendar == nil {
			return scheduledAt
		}
		scheduledAt = s.nominal(until.Add(-time.Nanosecond))
	}
	return time.Time{}
}

const (
	// fewExcluded and longExcluded bound the exclusions in a row that Next skips: ten years of
	// days, or two years of hours, in a few milliseconds.
	fewExcluded  = 4_000
	longExcluded = 2 * 366 * 24 * time.Hour
	// maxExcluded bounds them further: half a year of minutes, in some tens of milliseconds.
	maxExcluded = 300_000
)

// nominal returns the first scheduled time after t, without calendars.
func (s Schedule) nominal(t time.Time) time.Time {
	rule := s.plan().rule
	if rule == nil || t.UTC().Year() > lastYear {
		return time.Time{}
	}
	if t.Before(time.Time{}) {
		t = time.Time{}
	}
	scheduledAt, ok := rule.next(t)
	if !ok || scheduledAt.UTC().Year() > lastYear {
		return time.Time{}
	}
	return scheduledAt.UTC()
}

// Upcoming returns the first n scheduled times that are later than start, or all if there are
// fewer, in UTC.
func (s Schedule) Upcoming(start time.Time, n int) []time.Time {
	var scheduledTimes []time.Time
	for len(scheduledTimes) < n {
		start = s.Next(start)
		if start.IsZero() {
			break
		}
		scheduledTimes = append(scheduledTimes, start)
	}
	return scheduledTimes
}

// After returns the names of the dependencies of the job, or nil if the schedule has none. A job
// with dependencies is due when all of them have succeeded for the same scheduled time. Its
// schedule has no scheduled times of its own: Next returns the zero time. The caller must not
// change the result.
func (s Schedule) After() []string { return s.plan().after }

// WithClockChanges returns the schedule with another policy for changes of clocks. It does not
// affect intervals and single times.
func (s Schedule) WithClockChanges(c ClockChanges) Schedule {
	if c == s.plan().changes {
		return s
	}
	changed := *s.plan()
	changed.changes = c
	if l, ok := changed.rule.(*local); ok {
		with := *l
		with.changes = c
		changed.rule = &with
	}
	return Schedule{&changed}
}

// WithCalendars returns the schedule with these calendars in place of its own.
func (s Schedule) WithCalendars(calendars ...*Calendar) Schedule {
	if len(calendars) == 0 && len(s.plan().calendars) == 0 {
		return s
	}
	changed := *s.plan()
	changed.calendars = slices.Clone(calendars)
	return Schedule{&changed}
}

// Calendars returns the names of the calendars that exclude scheduled times, or nil.
func (s Schedule) Calendars() (names []string) {
	for _, c := range s.plan().calendars {
		names = append(names, c.name)
	}
	return names
}

// WithJitter returns the schedule with delays that are shorter than limit. Its scheduled times do
// not change.
func (s Schedule) WithJitter(limit time.Duration) Schedule {
	if limit == s.plan().jitter {
		return s
	}
	changed := *s.plan()
	changed.jitter = limit
	return Schedule{&changed}
}

// Delay returns how much later than its scheduled time the job of that name starts: Jitter with the
// limit of WithJitter.
func (s Schedule) Delay(job string, scheduledAt time.Time) time.Duration {
	return Jitter(job, scheduledAt, s.plan().jitter)
}

// MaxDelay returns the limit of WithJitter. Delay is less, or both are 0.
func (s Schedule) MaxDelay() time.Duration { return s.plan().jitter }

// String returns the schedule in the form that ParseText reads: cron as it was written, and "" for
// the zero Schedule. It does not include zone, clock changes, calendars and jitter.
func (s Schedule) String() string { return s.plan().text }

// Zone returns the zone of the schedule; UTC for the zero Schedule.
func (s Schedule) Zone() *time.Location {
	if zone := s.plan().zone; zone != nil {
		return zone
	}
	return time.UTC
}

// Fingerprint returns String and everything else that decides scheduled times and their delays,
// except the zone. Schedules of one zone with equal fingerprints have the same scheduled times. The
// fingerprint has the policy for clock changes and the jitter only if they differ from the
// defaults. It has calendars as hashes of their contents.
func (s Schedule) Fingerprint() string {
	p := s.plan()
	texts := []string{p.text}
	if p.changes.Skip {
		texts = append(texts, "gap:skip")
	}
	if p.changes.Both {
		texts = append(texts, "overlap:both")
	}
	if p.jitter > 0 {
		texts = append(texts, "jitter:"+p.jitter.String())
	}
	for _, c := range p.calendars {
		texts = append(texts, fmt.Sprintf("calendar:%q %s", c.name, c.fingerprint))
	}
	return strings.Join(texts, "; ")
}
