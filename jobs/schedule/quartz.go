package schedule

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/plural"
	"github.com/holdfast-dev/holdfast/internal/suggest"
)

// parseQuartz parses an expression as CronExpression of Quartz 2.3.2 does, including its leniency.
// Text after a value that Quartz ignores is ignored here, so that existing schedules do not change.
func parseQuartz(text string, zone *time.Location) (rule, error) {
	for i := range len(text) {
		if text[i] >= 0x80 {
			return nil, fmt.Errorf("found %q, expected ASCII only", text)
		}
	}
	texts := strings.FieldsFunc(strings.ToUpper(text), func(r rune) bool {
		return r == ' ' || r == '\t'
	})
	if len(texts) < 6 {
		return nil, fmt.Errorf("found %s, expected 6 (second, minute, hour, day of month, "+
			"month, weekday) or 7 (year last)", plural.Of(len(texts), "field", "fields"))
	}
	if len(texts) == 6 {
		texts = append(texts, "*")
	}
	var q quartz
	var mistakes []error
	for i := range q {
		q[i] = quartzField{kind: quartzKind(i), last: -1}
		text := strings.TrimFunc(texts[i], func(r rune) bool { return r <= ' ' })
		if err := q[i].parse(text); err != nil {
			mistakes = append(mistakes, fmt.Errorf("%s: %w", q[i].kind, err))
		}
	}
	if err := joinMistakes(mistakes); err != nil {
		return nil, err
	}
	days, err := q.days()
	if err != nil {
		return nil, err
	}
	fields := clockFields{q[quartzSecond].values.low(), q[quartzMinute].values.low(),
		q[quartzHour].values.low()}
	p := pattern{clock: fields, days: days}
	if !p.fires() {
		return nil, fmt.Errorf("%w: no date matches day of month %s, month %s, weekday %s, year %s",
			ErrNeverFires, texts[3], texts[4], texts[5], texts[6])
	}
	even := fields.everyHour() || isOpenStep(texts[0]) || isOpenStep(texts[1]) ||
		isOpenStep(texts[2])
	return &local{pattern: p, zone: zone, everyHour: fields.everyHour(), even: even}, nil
}

// isOpenStep reports whether the field is an interval: *, */5, /5 or 0/5.
func isOpenStep(field string) bool {
	from, _, stepped := strings.Cut(field, "/")
	_, err := strconv.ParseUint(from, 10, 32)
	return strings.HasPrefix(field, "*") || stepped && (from == "" || err == nil)
}

// quartz holds the seven fields of an expression.
type quartz [7]quartzField

// days returns the dates that the day, month and year fields describe.
func (q *quartz) days() (days, error) {
	day, weekday := &q[quartzDay], &q[quartzWeekday]
	if day.none == weekday.none {
		found := "neither"
		if day.none {
			found = "both"
		}
		return nil,
			fmt.Errorf("found ? in %s of day of month and weekday, expected it in one of them",
				found)
	}
	d := quartzDays{months: q[quartzMonth].values.low()}
	if years := q[quartzYear].values; years != everyYear() {
		d.set = &years
	}
	lowest := day.values.first() // the only value that W looks at, and L and # of weekdays
	if day.none {
		lowest = weekday.values.first()
	}
	switch {
	case weekday.none && day.last >= 0:
		d.of = lastDay{before: day.last, workday: day.workday}
	case weekday.none && day.workday && lowest == 0:
		return nil, errors.New("day of month: found 0W, expected 1W to 31W: Quartz takes it, and " +
			"then looks for its day for ever")
	case weekday.none && day.workday:
		d.of = workday{day: lowest, months: d.months}
	case weekday.none:
		d.of = dates(day.values.low())
	case weekday.lastOfMonth:
		d.of = lastWeekday(lowest - 1)
	case weekday.nth > 0:
		if lowest > 7 {
			return nil, fmt.Errorf("weekday: found %d#%d, expected 1#%d to 7#%d: Quartz takes "+
				"it, and never fires", lowest, weekday.nth, weekday.nth, weekday.nth)
		}
		// 0 counts as Saturday
		d.of = nthWeekday{weekday: time.Weekday((lowest + 6) % 7), nth: weekday.nth}
	default:
		d.of = weekdays(weekday.values.low() >> 1)
	}
	return d, nil
}

type quartzKind int

const (
	quartzSecond quartzKind = iota
	quartzMinute
	quartzHour
	quartzDay
	quartzMonth
	quartzWeekday
	quartzYear
)

func (k quartzKind) String() string {
	return [...]string{"second", "minute", "hour", "day of month", "month", "weekday", "year"}[k]
}

// bounds returns the field's lowest and highest value. A written year has no bounds; these are
// those of an expression without a year.
func (k quartzKind) bounds() (low, high int) {
	b := [...][2]int{{0, 59}, {0, 59}, {0, 23}, {1, 31}, {1, 12}, {1, 7}, {1970, quartzLastYear}}[k]
	return b[0], b[1]
}

// quartzLastYear is the last year in which Quartz searches for a scheduled time. Quartz itself
// stops a hundred years after the present. A constant is the same for replicas that start in
// different years.
const quartzLastYear = 2999

// period is how many values a range that wraps visits.
func (k quartzKind) period() int {
	return [...]int{60, 60, 24, 31, 12, 7, 0}[k]
}

// maxStep is the longest step behind a star or a single value.
func (k quartzKind) maxStep() int {
	return [...]int{59, 59, 23, 31, 12, 7, math.MaxInt32}[k]
}

func (k quartzKind) isDay() bool { return k == quartzDay || k == quartzWeekday }

// names returns the names of values, from 1, and whether there are any.
func (k quartzKind) names() ([]string, bool) {
	switch k {
	case quartzMonth:
		return strings.Fields(monthNames), true
	case quartzWeekday:
		return strings.Fields(weekdayNames), true
	}
	return nil, false
}

// name returns the value of a name of three letters.
func (k quartzKind) name(text string) (int, error) {
	names, _ := k.names()
	three := text[:min(3, len(text))]
	for i, name := range names {
		if strings.EqualFold(name, three) {
			return i + 1, nil
		}
	}
	return 0, fmt.Errorf("found the name %q%s", three, suggest.Hint(three, names))
}

// expected describes the values that the field accepts.
func (k quartzKind) expected() string {
	low, high := k.bounds()
	if k == quartzYear {
		return "a year such as 2030"
	}
	text := fmt.Sprintf("%d to %d", low, high)
	if names, named := k.names(); named {
		text += ", " + strings.ToUpper(names[0]) + " to " + strings.ToUpper(names[len(names)-1])
	}
	return text
}

// numbers is a set of numbers from 0. Higher ones are dropped: they have no meaning in any field.
type numbers [157]uint64

func (n *numbers) add(value int) {
	if value >= 0 && value < len(n)*64 {
		n[value/64] |= 1 << (value % 64)
	}
}

func (n *numbers) has(value int) bool { return n[value/64]>>(value%64)&1 == 1 }

// low returns the numbers below 64 as bits.
func (n *numbers) low() uint64 { return n[0] }

func (n *numbers) first() int {
	for i, word := range n {
		if word != 0 {
			return i*64 + bits.TrailingZeros64(word)
		}
	}
	return math.MaxInt
}

// everyYear is the years of *.
func everyYear() numbers {
	field := quartzField{kind: quartzYear}
	_ = field.item("*") // always valid
	return field.values
}

// quartzDays is the set of dates of a Quartz expression.
type quartzDays struct {
	months uint64
	set    *numbers // years; nil: from 1970
	of     monthDays
}

// monthDays picks days of one month, as bits.
type monthDays interface {
	pick(month time.Month, length int, first time.Weekday) uint64
}

func (q quartzDays) in(year int, month time.Month) uint64 {
	if q.months>>month&1 == 0 || q.set != nil && (year < 0 || year > lastYear || !q.set.has(year)) {
		return 0
	}
	length, first := shape(year, month)
	return q.of.pick(month, length, first) & upTo(length)
}

func (q quartzDays) years() (first, last int) {
	if q.set != nil {
		return 1, quartzLastYear
	}
	return quartzKind(quartzYear).bounds()
}

// dates selects days of the month.
type dates uint64

func (d dates) pick(time.Month, int, time.Weekday) uint64 { return uint64(d) }

// weekdays selects days of the week; Sunday is bit 0.
type weekdays uint64

func (w weekdays) pick(_ time.Month, _ int, first time.Weekday) uint64 {
	return weekdayDays(uint64(w), first)
}

// nthWeekday selects a day such as the third Friday; a fifth may not exist.
type nthWeekday struct {
	weekday time.Weekday
	nth     int
}

func (n nthWeekday) pick(_ time.Month, _ int, first time.Weekday) uint64 {
	return 1 << (1 + int(n.weekday-first+7)%7 + 7*(n.nth-1))
}

// lastWeekday selects a day such as the last Friday.
type lastWeekday time.Weekday

func (w lastWeekday) pick(_ time.Month, length int, first time.Weekday) uint64 {
	last := (int(first) + length - 1) % 7
	return 1 << (length - (last-int(w)+7)%7)
}

// lastDay selects the day that is a number of days before the last of the month, or the workday
// nearest to it.
type lastDay struct {
	before  int
	workday bool
}

func (l lastDay) pick(_ time.Month, length int, first time.Weekday) uint64 {
	day := length - l.before
	if l.workday {
		day = nearestWorkday(day, length, first)
	}
	if day < 1 {
		return 0
	}
	return 1 << day
}

// workday selects the workday nearest to a day of the month.
type workday struct {
	day    int
	months uint64
}

// pick follows Quartz if the month does not have the day. If the month lacks only that day, and the
// first of the next month is a Saturday, pick selects the last day, a Friday. But 29W and 30W skip
// February if the expression also has January, because Quartz then searches from January on.
func (w workday) pick(month time.Month, length int, first time.Weekday) uint64 {
	const longest = 31
	if w.day > length && w.day < longest && w.months>>(month-1)&1 == 1 {
		return 0
	}
	return 1 << nearestWorkday(w.day, length, first)
}

// nearestWorkday returns the day from Monday to Friday nearest to the given one and in its month,
// if the month has the day.
func nearestWorkday(day, length int, first time.Weekday) int {
	switch weekday := time.Weekday(((int(first)+day-1)%7 + 7) % 7); {
	case weekday == time.Saturday && day == 1:
		return 3
	case weekday == time.Saturday:
		return day - 1
	case weekday == time.Sunday && day == length:
		return day - 2
	case weekday == time.Sunday:
		return day + 1
	}
	return day
}
