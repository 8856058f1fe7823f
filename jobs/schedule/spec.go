package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrNeverFires says that a cron expression is well formed, but that no
	// date matches it.
	ErrNeverFires = errors.New("never fires")
	// ErrUnsupported says that an expression is in a syntax which is not
	// supported yet.
	ErrUnsupported = errors.New("not supported yet")
)

// Spec is a schedule as it is written. At most one field is set; the zero Spec
// is never due.
type Spec struct {
	Cron   string        // 5 or 6 fields, or a descriptor such as @daily or @every 90s
	Quartz string        // refused with ErrUnsupported
	Every  time.Duration // whole seconds, at least one
	At     time.Time     // a whole second
}

// Parse returns the schedule that spec describes, read in zone; nil means UTC.
// time.Local is refused, for it is not the same zone on every replica.
func Parse(spec Spec, zone *time.Location) (Schedule, error) {
	if zone == nil {
		zone = time.UTC
	}
	if zone == time.Local {
		return Schedule{}, errors.New("schedule: the zone Local differs between replicas: name one, such as UTC or Europe/Berlin")
	}
	if spec.kinds() > 1 {
		return Schedule{}, errors.New("schedule: expected one of cron, quartz, every and at, found several")
	}
	text := spec.text()
	rule, err := spec.rule(zone)
	if err != nil {
		return Schedule{}, fmt.Errorf("schedule %q: %w", text, err)
	}
	return Schedule{text: text, zone: zone, rule: rule}, nil
}

// ParseText returns the schedule that a bare expression describes: cron as in
// Spec, or "quartz:", "every:" or "at:" followed by an expression, a duration
// such as 90s, or an instant such as 2026-01-31T09:00:00Z.
func ParseText(s string, zone *time.Location) (Schedule, error) {
	kind, rest, found := strings.Cut(s, ":")
	if !found {
		kind = ""
	}
	rest = strings.TrimSpace(rest)
	switch strings.TrimSpace(kind) {
	case "quartz":
		return Parse(Spec{Quartz: orBlank(rest)}, zone)
	case "every":
		d, err := parseEvery(rest)
		if err != nil {
			return Schedule{}, fmt.Errorf("schedule %q: %w", s, err)
		}
		return Parse(Spec{Every: d}, zone)
	case "at":
		t, err := time.Parse(time.RFC3339, rest)
		if err != nil || t.IsZero() {
			return Schedule{}, fmt.Errorf("schedule %q: expected an instant such as 2026-01-31T09:00:00Z", s)
		}
		return Parse(Spec{At: t}, zone)
	}
	return Parse(Spec{Cron: orBlank(s)}, zone)
}

// orBlank keeps an empty expression from being taken for one that is not set.
func orBlank(s string) string {
	if s == "" {
		return " "
	}
	return s
}

func (s Spec) kinds() int {
	n := 0
	for _, set := range []bool{s.Cron != "", s.Quartz != "", s.Every != 0, !s.At.IsZero()} {
		if set {
			n++
		}
	}
	return n
}

func (s Spec) text() string {
	switch {
	case s.Quartz != "":
		return "quartz:" + strings.TrimSpace(s.Quartz)
	case s.Every != 0:
		return "every:" + s.Every.String()
	case !s.At.IsZero():
		return "at:" + s.At.Format(time.RFC3339Nano)
	}
	return strings.TrimSpace(s.Cron)
}

// rule returns the rule that s describes; nil for the zero Spec.
func (s Spec) rule(zone *time.Location) (rule, error) {
	switch {
	case s.Quartz != "":
		return nil, fmt.Errorf("syntax of Quartz: %w; write it as cron, every or at", ErrUnsupported)
	case s.Every != 0:
		return newInterval(s.Every)
	case !s.At.IsZero():
		return newOnce(s.At)
	case s.Cron != "":
		return parseCron(s.Cron, zone)
	}
	return nil, nil
}
