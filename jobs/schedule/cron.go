package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-dev/holdfast/internal/plural"
	"github.com/holdfast-dev/holdfast/internal/suggest"
)

// parseCron parses a cron expression or a descriptor.
func parseCron(text string, zone *time.Location) (rule, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return nil, errors.New("found nothing, expected a cron expression")
	case strings.HasPrefix(text, "TZ="), strings.HasPrefix(text, "CRON_TZ="):
		return nil,
			errors.New("a zone inside the expression is refused: set the timezone beside it")
	case strings.HasPrefix(text, "@"):
		return parseDescriptor(text, zone)
	}
	return parseFields(strings.Fields(text), zone)
}

// parseDescriptor parses "@every 90s" and the short names of expressions.
func parseDescriptor(text string, zone *time.Location) (rule, error) {
	words := strings.Fields(text)
	if words[0] == "@every" && len(words) == 2 {
		d, err := parseEvery(words[1])
		if err != nil {
			return nil, err
		}
		return newInterval(d)
	}
	expression := map[string]string{
		"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *",
		"@weekly": "0 0 * * 0",
		"@daily":  "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
	}[text]
	if expression == "" {
		known := []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight",
			"@hourly", "@every"}
		hint := ""
		if near := suggest.Of(words[0], known); near != "" && near != words[0] {
			hint = fmt.Sprintf("; did you mean %q?", near)
		}
		return nil, fmt.Errorf("unknown descriptor: expected %s and a duration%s",
			strings.Join(known, ", "), hint)
	}
	return parseFields(strings.Fields(expression), zone)
}

func parseFields(fields []string, zone *time.Location) (rule, error) {
	switch len(fields) {
	case 5:
		fields = append([]string{"0"}, fields...)
	case 6:
		if isQuartzWeekday(fields) {
			return nil, fmt.Errorf("weekday %q beside ?: 1 is Sunday in Quartz and Monday in "+
				"cron: name the day, such as MON, or write * for ?", fields[5])
		}
	default:
		return nil, fmt.Errorf("found %s, expected 5 (minute, hour, day of month, month, "+
			"weekday) or 6 (second first)", plural.Of(len(fields), "field", "fields"))
	}
	sets, err := parseSets(fields)
	if err != nil {
		return nil, err
	}
	clock := clockFields{seconds: sets[0], minutes: sets[1], hours: sets[2]}
	p := pattern{clock: clock, days: newCronDays(sets[3], sets[4], sets[5],
		startsWithStar(fields[3]), startsWithStar(fields[5]))}
	if !p.fires() {
		return nil, fmt.Errorf("%w: no date matches day of month %s in month %s", ErrNeverFires,
			fields[3], fields[4])
	}
	even := clock.everyHour() || startsWithStar(fields[0]) || startsWithStar(fields[1]) ||
		startsWithStar(fields[2])
	return &local{pattern: p, zone: zone, everyHour: clock.everyHour(), even: even}, nil
}

// parseSets parses the six fields, each into a set of values as bits, and returns the mistakes of
// all fields.
func parseSets(fields []string) (sets [6]uint64, err error) {
	var mistakes []error
	for i, kind := range fieldKinds() {
		set, err := kind.parse(fields[i])
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("%s: %w", kind.name, err))
		}
		sets[i] = set
	}
	return sets, joinMistakes(mistakes)
}

func joinMistakes(mistakes []error) error {
	if len(mistakes) < 2 {
		return errors.Join(mistakes...)
	}
	texts := make([]string, len(mistakes))
	for i, err := range mistakes {
		texts[i] = err.Error()
	}
	return errors.New(strings.Join(texts, "; "))
}

// isQuartzWeekday reports whether Quartz and cron both accept the six fields, with different days:
// a ? as Quartz requires it, and a numeric weekday.
func isQuartzWeekday(fields []string) bool {
	if fields[3] != "?" {
		return false
	}
	for item := range strings.SplitSeq(fields[5], ",") {
		span, _, _ := strings.Cut(item, "/")
		if strings.Contains(span, "0") {
			return false
		}
		if strings.ContainsAny(span, "1234567") && !strings.ContainsAny(span, "#Ll") {
			return true
		}
	}
	return false
}

// startsWithStar reports whether the field is unrestricted in the sense of crontab(5).
func startsWithStar(field string) bool {
	return strings.HasPrefix(field, "*") || strings.HasPrefix(field, "?")
}

// fieldKind is one of the six fields of an expression.
type fieldKind struct {
	name     string
	option   cron.ParseOption
	min, max int
	names    string // names of values, from min
	pick     func(*cron.SpecSchedule) uint64
}

func fieldKinds() []fieldKind {
	return []fieldKind{
		{"second", cron.Second, 0, 59, "", func(s *cron.SpecSchedule) uint64 { return s.Second }},
		{"minute", cron.Minute, 0, 59, "", func(s *cron.SpecSchedule) uint64 { return s.Minute }},
		{"hour", cron.Hour, 0, 23, "", func(s *cron.SpecSchedule) uint64 { return s.Hour }},
		{"day of month", cron.Dom, 1, 31, "", func(s *cron.SpecSchedule) uint64 { return s.Dom }},
		{"month", cron.Month, 1, 12, monthNames, func(s *cron.SpecSchedule) uint64 {
			return s.Month
		}},
		{"weekday", cron.Dow, 0, 6, weekdayNames,
			func(s *cron.SpecSchedule) uint64 { return s.Dow }},
	}
}

// parse returns the field's values as bits, without robfig's bit for a star.
func (k fieldKind) parse(field string) (uint64, error) {
	var items []string
	for item := range strings.SplitSeq(field, ",") {
		plain, err := k.guard(item)
		if err != nil {
			return 0, err
		}
		items = append(items, plain...)
	}
	parsed, err := cron.NewParser(k.option).Parse(strings.Join(items, ","))
	if err != nil {
		return 0, err
	}
	all := uint64(1)<<(k.max+1) - 1
	return k.pick(parsed.(*cron.SpecSchedule)) & all, nil
}
