package schedule

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// quartzField is a parsed field of a Quartz expression.
type quartzField struct {
	kind        quartzKind
	values      numbers
	none        bool // ?
	last        int  // L: days before the month's last; -1: not L
	workday     bool // W
	nth         int  // #
	lastOfMonth bool // L after a weekday
}

// Quartz stores * and ? as these numbers among the values. So it also accepts these numbers in an
// expression, with the meaning of * and ?.
const (
	quartzStar = 99
	quartzNone = 98
)

func (f *quartzField) parse(text string) error {
	if f.kind.isDay() && len(text) > 1 && strings.Contains(text, "L") &&
		strings.Contains(text, ",") {
		return fmt.Errorf("found %q, expected L by itself, not in a list", text)
	}
	if f.kind == quartzWeekday && strings.Count(text, "#") > 1 {
		return fmt.Errorf("found %q, expected one # at most", text)
	}
	for item := range strings.SplitSeq(text, ",") {
		if item == "" {
			continue // as Quartz does
		}
		if err := f.item(item); err != nil {
			return err
		}
	}
	if f.values == (numbers{}) && !f.none && f.last < 0 {
		return fmt.Errorf("found %q, which gives no value, expected %s", text, f.kind.expected())
	}
	return nil
}

// item parses one of the values that commas separate.
func (f *quartzField) item(text string) error {
	switch c := text[0]; {
	case c == '?':
		return f.question(text)
	case c == '*', c == '/':
		return f.starred(text)
	case isQuartzLast(text):
		return f.lastDay(text)
	case c >= 'A' && c <= 'Z':
		return f.named(text)
	case isDigit(c):
		return f.numeric(text)
	}
	return f.unexpected(text)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func (f *quartzField) unexpected(text string) error {
	return fmt.Errorf("found %q, expected %s", text, f.kind.expected())
}

func (f *quartzField) question(text string) error {
	if !f.kind.isDay() {
		return fmt.Errorf("found %q, expected %s; ? is for the day of month or the weekday", text,
			f.kind.expected())
	}
	if len(text) > 2 {
		return fmt.Errorf("found %q, expected ? by itself", text)
	}
	f.none = true
	return nil
}

// starred parses * and */5, and /5, which means the same.
func (f *quartzField) starred(text string) error {
	rest := strings.TrimPrefix(text, "*")
	if rest == "" {
		return f.add(quartzStar, -1, 0)
	}
	if rest[0] != '/' {
		return f.add(quartzStar, -1, 1)
	}
	step, err := javaInt(rest[1:])
	if err != nil {
		return fmt.Errorf("found the step %q, %w", rest[1:], f.expectedStep())
	}
	if step > f.kind.maxStep() {
		return fmt.Errorf("found the step %d, %w", step, f.expectedStep())
	}
	return f.add(quartzStar, -1, step)
}

func (f *quartzField) expectedStep() error {
	if f.kind == quartzYear {
		return errors.New("expected a number")
	}
	return fmt.Errorf("expected a number from 1 to %d", f.kind.maxStep())
}

// isQuartzLast reports whether the item is L, LW, L-3 or L-3W.
func isQuartzLast(item string) bool {
	rest, ok := strings.CutPrefix(item, "L")
	if !ok {
		return false
	}
	before, offset := strings.CutPrefix(rest, "-")
	digits := strings.TrimSuffix(before, "W")
	return rest == "" || rest == "W" || offset && strings.Trim(digits, "0123456789") == ""
}

func (f *quartzField) lastDay(text string) error {
	switch f.kind {
	case quartzDay:
	case quartzWeekday: // whatever follows
		return f.add(7, 7, 0)
	default:
		return nil // no effect
	}
	f.last = 0
	f.workday = strings.HasSuffix(text, "W")
	if rest, offset := strings.CutPrefix(text, "L-"); offset {
		if rest == "" {
			return fmt.Errorf("found %q, expected the days before the last, such as L-3", text)
		}
		if digits := strings.TrimSuffix(rest, "W"); digits != "" { // L-W is LW
			before, err := javaInt(digits)
			if err != nil || before > 30 {
				return fmt.Errorf("found %q, expected at most 30 days before the last", text)
			}
			f.last = before
		}
	}
	return nil
}

// named parses JAN, MON-FRI, FRI#2 and FRIL. Of other text after the first three letters it ignores
// everything.
func (f *quartzField) named(text string) error {
	names, named := f.kind.names()
	if !named {
		return f.unexpected(text)
	}
	value, err := f.kind.name(text)
	if err != nil {
		return err
	}
	rest := text[3:]
	switch {
	case strings.HasPrefix(rest, "-"):
		if len(rest) < 4 {
			return fmt.Errorf("found %q, expected a range of names such as %s-%s", text, names[0],
				names[len(names)-1])
		}
		end, err := f.kind.name(rest[1:])
		if err != nil {
			return err
		}
		return f.add(value, end, 1)
	case f.kind == quartzWeekday && strings.HasPrefix(rest, "#"):
		if f.nth, err = parseNth(rest[1:]); err != nil {
			return err
		}
	case f.kind == quartzWeekday && strings.HasPrefix(rest, "L"):
		f.lastOfMonth = true
	}
	return f.add(value, -1, 0)
}

func parseNth(text string) (int, error) {
	nth, err := javaInt(text)
	if err != nil || nth < 1 || nth > 5 {
		return 0, fmt.Errorf("found #%s, expected #1 to #5", text)
	}
	return nth, nil
}

// numeric parses 5, 5-10, 5/3, 5-10/3, 6L, 15W and 6#3. It ignores text after these, but refuses
// text after 6#3, and after a step of one digit in the form 5/3.
func (f *quartzField) numeric(text string) error {
	value, rest, err := leadingInt(text)
	if err != nil {
		return f.unexpected(text)
	}
	switch {
	case strings.HasPrefix(rest, "L"):
		if f.kind != quartzWeekday || value < 1 || value > 7 {
			return fmt.Errorf("found %q, expected %s; 1L to 7L are for weekdays", text,
				f.kind.expected())
		}
		f.lastOfMonth = true
		f.values.add(value)
	case strings.HasPrefix(rest, "W"):
		if f.kind != quartzDay || value > 31 {
			return fmt.Errorf("found %q, expected %s; 1W to 31W are for days of the month", text,
				f.kind.expected())
		}
		f.workday = true
		f.values.add(value)
	case strings.HasPrefix(rest, "#"):
		return f.nthOf(value, text, rest[1:])
	case strings.HasPrefix(rest, "-"):
		return f.spanned(value, text, rest[1:])
	case strings.HasPrefix(rest, "/"):
		step, tail, err := leadingInt(rest[1:])
		if err != nil || tail != "" && len(rest)-len(tail) == 2 || step > f.kind.maxStep() {
			return fmt.Errorf("found the step %q, %w", rest[1:], f.expectedStep())
		}
		return f.add(value, -1, step)
	default:
		return f.add(value, -1, 0)
	}
	return nil
}

func (f *quartzField) nthOf(value int, text, nth string) (err error) {
	if f.kind != quartzWeekday {
		return fmt.Errorf("found %q, expected %s; # is for weekdays", text, f.kind.expected())
	}
	if f.nth, err = parseNth(nth); err != nil {
		return err
	}
	if value == quartzNone {
		f.none = true
	}
	f.values.add(value)
	return nil
}

func (f *quartzField) spanned(from int, text, rest string) error {
	to, rest, err := leadingInt(rest)
	if err != nil {
		return fmt.Errorf("found the range %q, expected one such as 2-5", text)
	}
	step := 1
	if after, stepped := strings.CutPrefix(rest, "/"); stepped {
		if step, _, err = leadingInt(after); err != nil {
			return fmt.Errorf("found the step %q, expected a number", after)
		}
	}
	return f.add(from, to, step)
}

// add adds the values between two numbers to the field, up to its last value if to is -1. A step of
// 0 means only the first.
func (f *quartzField) add(from, to, step int) error {
	low, high := f.kind.bounds()
	star, none := from == quartzStar, from == quartzNone && f.kind.isDay()
	if f.kind != quartzYear && !none && (!star && (from < low || from > high) || to > high) {
		return fmt.Errorf("found %s, expected %s", spanText(from, to), f.kind.expected())
	}
	switch {
	case step <= 0 && none:
		f.none = true
		return nil
	case step <= 0 && !star:
		f.values.add(from)
		return nil
	case none:
		return nil // there is no value from 98
	case star && step <= 0:
		step = 1
	}
	if star {
		from = low
	}
	if to < 0 {
		to = high
	}
	return f.fill(from, to, step)
}

func spanText(from, to int) string {
	if to < 0 {
		return strconv.Itoa(from)
	}
	return fmt.Sprintf("%d-%d", from, to)
}

func (f *quartzField) fill(from, to, step int) error {
	low, _ := f.kind.bounds()
	period := f.kind.period()
	if to < from {
		if f.kind == quartzYear {
			return fmt.Errorf("found the years %s, expected a range that rises and ends before %d",
				spanText(from, to), quartzLastYear+1)
		}
		to += period
	}
	if last := from + (to-from)/step*step; last > math.MaxInt32-step {
		return fmt.Errorf("found the step %d, expected less: Quartz counts beyond its integers",
			step)
	}
	for value := from; value <= min(to, lastYear); value += step {
		if period > 0 {
			f.values.add((value-low)%period + low)
		} else {
			f.values.add(value)
		}
	}
	return nil
}

// javaInt parses a number as Java's Integer.parseInt does.
func javaInt(text string) (int, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	return int(n), err
}

// leadingInt parses the digits at the start of text.
func leadingInt(text string) (value int, rest string, err error) {
	rest = strings.TrimLeft(text, "0123456789")
	value, err = javaInt(text[:len(text)-len(rest)])
	return value, rest, err
}
