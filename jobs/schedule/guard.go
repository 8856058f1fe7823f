package schedule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/suggest"
)

// guard checks one item of a field's list and returns it in a form that robfig's parser reads with
// the intended meaning. That parser reads "*-5" as "*", an empty item as nothing and "*/90" as "0",
// and has no Sunday after Saturday.
func (k fieldKind) guard(item string) ([]string, error) {
	if item == "" {
		return nil, errors.New("an item of the list is empty")
	}
	if k.isQuartz(item) {
		return nil, fmt.Errorf("%s is Quartz syntax: use {quartz: …}", item)
	}
	span, step, stepped := strings.Cut(item, "/")
	if err := k.checkStep(step, stepped); err != nil {
		return nil, err
	}
	if span == "*" || span == "?" {
		return []string{item}, nil
	}
	low, high, ranged := strings.Cut(span, "-")
	from, err := k.value(low)
	if err != nil {
		return nil, err
	}
	if !ranged {
		return k.single(from, item, stepped), nil
	}
	to, err := k.value(high)
	if err != nil {
		return nil, err
	}
	if k.name == "weekday" {
		return throughSunday(from, to, item, step), nil
	}
	return []string{item}, nil
}

func (k fieldKind) isQuartz(item string) bool {
	if k.name != "day of month" && k.name != "weekday" {
		return false
	}
	upper := strings.ToUpper(item)
	return strings.Contains(upper, "#") || strings.HasSuffix(upper, "L") ||
		strings.HasSuffix(upper, "W") ||
		strings.HasPrefix(upper, "L-")
}

// checkStep refuses steps that are longer than the field. They would match once, but the writer
// intended an interval that cron cannot express.
func (k fieldKind) checkStep(step string, present bool) error {
	if !present {
		return nil
	}
	n, err := strconv.ParseUint(step, 10, 16)
	most := uint64(k.max - k.min + 1)
	if err != nil || n < 1 || n > most {
		return fmt.Errorf("found the step %q, expected a number from 1 to %d", step, most)
	}
	return nil
}

// value parses a number or, if the field has them, a name.
func (k fieldKind) value(text string) (int, error) {
	for i, name := range strings.Fields(k.names) {
		if strings.EqualFold(name, text) {
			return k.min + i, nil
		}
	}
	most := k.max
	if k.name == "weekday" {
		most = 7
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err == nil && int(n) >= k.min && int(n) <= most {
		return int(n), nil
	}
	expected := fmt.Sprintf("a number from %d to %d", k.min, most)
	if k.names != "" {
		expected += " or one of " + k.names
	}
	if near := suggest.Of(text, strings.Fields(k.names)); near != "" {
		expected += fmt.Sprintf("; did you mean %q?", near)
	}
	return 0, fmt.Errorf("found %q, expected %s", text, expected)
}

// single returns a value without a range; "a/n" runs from a to the field's end.
func (k fieldKind) single(value int, item string, stepped bool) []string {
	if k.name == "weekday" && value == 7 {
		return []string{"0"}
	}
	if stepped {
		return []string{item}
	}
	return []string{strconv.Itoa(value)}
}

// throughSunday expands a range of weekdays that ends in Sunday, such as 5-7 or sat-sun, because
// robfig's parser refuses 7.
func throughSunday(from, to int, item, step string) []string {
	if to == 0 && from > 0 {
		to = 7
	}
	if to < 7 {
		return []string{item}
	}
	by := 1
	if step != "" {
		by, _ = strconv.Atoi(step) // checkStep has parsed it before
	}
	var days []string
	for day := from; day <= 7; day += by {
		days = append(days, strconv.Itoa(day%7))
	}
	return days
}
