package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/holdfast-dev/holdfast/internal/durations"
	"github.com/holdfast-dev/holdfast/internal/suggest"
)

// ErrNeverFires says that an expression is well formed, but matches no date.
var ErrNeverFires = errors.New("never fires")

// Spec is a schedule before it is parsed. At most one field is set; the zero Spec is never due.
type Spec struct {
	Cron       string        // 5 or 6 fields, or a descriptor such as @daily or @every 90s
	Quartz     string        // 6 or 7 fields, as Quartz 2.3.2 reads them
	Every      time.Duration // whole seconds, at least one
	Recurrence Recurrence    // in words
	At         time.Time     // once, at a whole second
	// names of dependencies: due when all of them have succeeded for the same scheduled time
	After []string
}

// Parse returns the schedule that spec describes, in zone; nil means UTC. It refuses time.Local,
// which may differ between replicas. Mistakes in a Recurrence are wrapped as PartErrors.
func Parse(spec Spec, zone *time.Location) (Schedule, error) {
	if zone == nil {
		zone = time.UTC
	}
	if zone == time.Local {
		return Schedule{}, errors.New("schedule: the zone Local differs between replicas: name " +
			"one, such as UTC or Europe/Berlin")
	}
	if spec.kinds() > 1 {
		return Schedule{}, errors.New("schedule: expected one of cron, quartz, every, at and " +
			"after, found several")
	}
	p := &plan{text: spec.String(), zone: zone}
	var err error
	switch {
	case spec.Recurrence != Recurrence{}:
		p.rule, p.text, err = spec.Recurrence.parse(zone)
	case spec.After != nil:
		p.after, err = checkAfter(spec.After)
	default:
		p.rule, err = spec.rule(zone)
	}
	if err != nil {
		return Schedule{}, fmt.Errorf("schedule %q: %w", spec, err)
	}
	return Schedule{p}, nil
}

// ParseText returns the schedule of an expression in the form of ParseSpec.
func ParseText(s string, zone *time.Location) (Schedule, error) {
	spec, err := ParseSpec(s)
	if err != nil {
		return Schedule{}, fmt.Errorf("schedule %q: %w", s, err)
	}
	return Parse(spec, zone)
}

// ParseSpec parses an expression in one of these forms:
//   - cron, as in Spec
//   - "quartz:" and an expression of Quartz
//   - "every:" and a duration such as 90s
//   - a Recurrence, such as every 2 weeks at 02:30 on mon
//   - "at:" and a time such as 2026-01-31T09:00:00Z
//   - "after:" and the names of jobs, separated by commas
//
// After "every", a space can replace the colon. ParseSpec does not check expressions of cron and
// Quartz.
func ParseSpec(s string) (Spec, error) {
	text := strings.TrimSpace(s)
	if rest, ok := cutWord(text, "every"); ok {
		r, err := splitRecurrence(rest)
		if err != nil {
			return Spec{}, err
		}
		if d, err := time.ParseDuration(r.Every); err == nil && d > 0 &&
			r == (Recurrence{Every: r.Every}) {
			return Spec{Every: d}, nil
		}
		if r.Every == "" {
			return Spec{}, &PartError{Part: "every",
				Err: errors.New(
					"found nothing, expected a duration such as 90s or 1h30m, or 1 month")}
		}
		return Spec{Recurrence: r}, nil
	}
	kind, rest, _ := strings.Cut(text, ":")
	rest = strings.TrimSpace(rest)
	switch strings.TrimSpace(kind) {
	case "quartz":
		return Spec{Quartz: orBlank(rest)}, nil
	case "at":
		t, err := time.Parse(time.RFC3339, rest)
		if err != nil || t.IsZero() {
			return Spec{}, errors.New("expected a timestamp such as 2026-01-31T09:00:00Z")
		}
		return Spec{At: t}, nil
	case "after":
		names, err := splitNames(rest)
		return Spec{After: names}, err
	}
	if err := checkKind(text); err != nil {
		return Spec{}, err
	}
	return Spec{Cron: orBlank(s)}, nil
}

// checkKind refuses a text that begins with an unknown word: a mistyped kind of schedule.
func checkKind(text string) error {
	end := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })
	if end <= 0 || text[end] != ':' && text[end] != ' ' {
		return nil
	}
	kinds := []string{"quartz", "every", "at", "after"}
	if word := text[:end]; text[end] == ':' || suggest.Of(word, kinds) != "" {
		return fmt.Errorf("found the kind %q%s", word, suggest.Hint(word, kinds))
	}
	return nil
}

// cutWord removes a word that ends in a space or a colon.
func cutWord(text, word string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(text, word)
	if !ok || rest == "" {
		return "", ok
	}
	trimmed := strings.TrimLeft(rest, " \t")
	if after, colon := strings.CutPrefix(trimmed, ":"); colon {
		return strings.TrimSpace(after), true
	}
	return trimmed, trimmed != rest
}

// orBlank returns a blank for an empty expression, so that it does not count as unset.
func orBlank(s string) string {
	if s == "" {
		return " "
	}
	return s
}

func (s Spec) kinds() int {
	n := 0
	for _, set := range []bool{s.Cron != "", s.Quartz != "", s.Every != 0,
		s.Recurrence != Recurrence{}, !s.At.IsZero(), s.After != nil} {
		if set {
			n++
		}
	}
	return n
}

// IsZero reports whether no field is set.
func (s Spec) IsZero() bool { return s.kinds() == 0 }

// String returns the spec in the form that ParseSpec reads, "" for the zero Spec.
func (s Spec) String() string {
	switch {
	case s.Quartz != "":
		return "quartz:" + strings.TrimSpace(s.Quartz)
	case s.Every != 0:
		return "every:" + durations.Short(s.Every)
	case s.Recurrence != Recurrence{}:
		return s.Recurrence.String()
	case !s.At.IsZero():
		return "at:" + s.At.Format(time.RFC3339Nano)
	case s.After != nil:
		return "after:" + joinNames(s.After)
	}
	return strings.TrimSpace(s.Cron)
}

// rule returns the rule that s describes; nil for the zero Spec.
func (s Spec) rule(zone *time.Location) (rule, error) {
	switch {
	case s.Quartz != "":
		return parseQuartz(s.Quartz, zone)
	case s.Every != 0:
		return newInterval(s.Every)
	case !s.At.IsZero():
		return newOnce(s.At)
	case s.Cron != "":
		return parseCron(s.Cron, zone)
	}
	return nil, nil
}
