package schedule_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// drawn is the text of a field and its meaning, computed without the package under test.
type drawn struct {
	text   string
	values map[int]bool
	star   bool
}

func drawField(t *rapid.T, name string, low, high int) drawn {
	d := drawn{values: map[int]bool{}}
	add := func(from, to, step int) {
		for v := from; v <= to; v += step {
			d.values[v] = true
		}
	}
	switch rapid.IntRange(0, 3).Draw(t, name+" kind") {
	case 0:
		d.text, d.star = "*", true
		add(low, high, 1)
	case 1:
		step := rapid.IntRange(1, high-low+1).Draw(t, name+" step")
		d.text, d.star = fmt.Sprintf("*/%d", step), true
		add(low, high, step)
	case 2:
		from := rapid.IntRange(low, high).Draw(t, name+" from")
		to := rapid.IntRange(from, high).Draw(t, name+" to")
		step := rapid.IntRange(1, 5).Draw(t, name+" step")
		d.text = fmt.Sprintf("%d-%d/%d", from, to, step)
		add(from, to, step)
	default:
		list := rapid.SliceOfN(rapid.IntRange(low, high), 1, 4).Draw(t, name+" list")
		d.text = strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ","), "[]")
		for _, v := range list {
			d.values[v] = true
		}
	}
	return d
}

// expression is six drawn fields, second first.
type expression []drawn

func drawExpression(t *rapid.T, seconds bool) expression {
	e := expression{{text: "0", values: map[int]bool{0: true}}}
	if seconds {
		e[0] = drawField(t, "second", 0, 59)
	}
	return append(e, drawField(t, "minute", 0, 59), drawField(t, "hour", 0, 23),
		drawField(t, "day", 1, 31),
		drawField(t, "month", 1, 12), drawField(t, "weekday", 0, 6))
}

func (e expression) text() string {
	texts := make([]string, len(e))
	for i, field := range e {
		texts[i] = field.text
	}
	return strings.Join(texts, " ")
}

// matches reports whether the local time matches the expression.
func (e expression) matches(shown time.Time) bool {
	day, weekday := e[3].values[shown.Day()], e[5].values[int(shown.Weekday())]
	dayOK := day || weekday
	if e[3].star || e[5].star {
		dayOK = day && weekday
	}
	return dayOK && e[0].values[shown.Second()] && e[1].values[shown.Minute()] &&
		e[2].values[shown.Hour()] && e[4].values[int(shown.Month())]
}

// evenly reports whether the schedule matches every hour, and whether it fires at both of two equal
// local times.
func (e expression) evenly() (everyHour, even bool) {
	everyHour = len(e[2].values) == 24
	return everyHour, everyHour || e[0].star || e[1].star || e[2].star
}

// quartz returns an expression in the notation of Quartz, with ? as one day field.
type quartz struct{ expression }

func drawQuartz(t *rapid.T) quartz {
	e := drawExpression(t, false)
	all := drawn{text: "?", values: map[int]bool{}}
	for v := range 32 {
		all.values[v] = true
	}
	if rapid.Bool().Draw(t, "by weekday") {
		e[3] = all
		e[5] = drawField(t, "weekday from 1", 1, 7)
		shifted := map[int]bool{}
		for v := range e[5].values {
			shifted[v-1] = true
		}
		e[5].values = shifted
	} else {
		e[5] = all
	}
	e[3].star = true // both day fields must match
	for i := range e[:3] {
		// A step from a start value is an interval, like a step from a star.
		e[i].star = e[i].star || strings.Contains(e[i].text, "/") &&
			!strings.Contains(e[i].text, "-")
	}
	return quartz{e}
}

func (q quartz) text() string { return "quartz:" + q.expression.text() }

// window fires every step minutes between two times of day on some weekdays.
type window struct {
	step, from, length int // minutes
	weekdays           map[int]bool
}

func drawWindow(t *rapid.T) window {
	w := window{from: rapid.IntRange(0, 24*60-1).Draw(t, "from"),
		length: rapid.IntRange(1, 24*60-1).Draw(t, "length"), weekdays: map[int]bool{}}
	w.step = rapid.IntRange(1, w.length).Draw(t, "step")
	for _, day := range rapid.SliceOfN(rapid.IntRange(0, 6), 1, 7).Draw(t, "weekdays") {
		w.weekdays[day] = true
	}
	return w
}

func (w window) text() string {
	var days []string
	for day := range w.weekdays {
		days = append(days, time.Weekday(day).String())
	}
	clock := func(minute int) string { return fmt.Sprintf("%02d:%02d", minute/60%24, minute%60) }
	return fmt.Sprintf("every %dm between %s and %s on %s", w.step, clock(w.from),
		clock(w.from+w.length), strings.Join(days, ","))
}

func (w window) matches(shown time.Time) bool {
	shifted := shown.Add(-time.Duration(w.from) * time.Minute)
	into := shifted.Hour()*60 + shifted.Minute()
	return w.weekdays[int(shifted.Weekday())] && into <= w.length && into%w.step == 0 &&
		shown.Second() == 0
}

func (w window) evenly() (everyHour, even bool) { return false, true }

// walked is a schedule whose meaning this file computes.
type walked interface {
	text() string
	matches(shown time.Time) bool
	evenly() (everyHour, even bool)
}

// walk checks each step of a wall clock, as an operator would, and returns the scheduled times
// after from until to.
func walk(e walked, changes schedule.ClockChanges, in *time.Location, from, to time.Time,
	step time.Duration) []time.Time {
	everyHour, even := e.evenly()
	var seen int64 = math.MinInt64 // the latest local time up to now
	shown := func(t time.Time) time.Time {
		_, offset := t.In(in).Zone()
		return t.UTC().Add(time.Duration(offset) * time.Second)
	}
	var scheduledTimes []time.Time
	before := from.Add(-3 * time.Hour) // early enough to have seen the doubled hour
	last := shown(before)
	for t := before.Add(step); !t.After(to); t = t.Add(step) {
		now := shown(t)
		scheduledAt := e.matches(now) && (even || changes.Both || now.Unix() > seen)
		for lost := last.Add(step); lost.Before(now) && !everyHour &&
			!changes.Skip; lost = lost.Add(step) {
			scheduledAt = scheduledAt || e.matches(lost)
		}
		if scheduledAt && t.After(from) {
			scheduledTimes = append(scheduledTimes, t.UTC())
		}
		seen = max(seen, now.Unix())
		last = now
	}
	return scheduledTimes
}

// drawChange returns the time of a change of the clock in one of the zones.
func drawChange(t *rapid.T) (*time.Location, time.Time) {
	name := rapid.SampledFrom([]string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe",
		"Africa/Casablanca",
		"Pacific/Apia", "Antarctica/Troll", "Europe/Dublin", "America/Sao_Paulo", "Asia/Gaza",
		"UTC"}).Draw(t, "zone")
	in, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	year := rapid.IntRange(2005, 2045).Draw(t, "year")
	at := time.Date(year, time.Month(rapid.IntRange(1, 12).Draw(t, "month")), 1, 0, 0, 0, 0, in)
	if _, end := at.ZoneBounds(); !end.IsZero() {
		at = end
	}
	return in, at.UTC().Truncate(time.Minute) // zone tables may end at an odd second
}

func checkAgainstWalk(t *rapid.T, e walked, before, after, step time.Duration) {
	in, change := drawChange(t)
	from, to := change.Add(-before), change.Add(after)
	s, err := schedule.ParseText(e.text(), in)
	if err != nil {
		t.Skip(err) // never fires
	}
	changes := schedule.ClockChanges{Skip: rapid.Bool().Draw(t, "skip"),
		Both: rapid.Bool().Draw(t, "both")}
	s = s.WithClockChanges(changes)
	want := walk(e, changes, in, from, to, step)
	got := from
	for _, scheduledAt := range want {
		if got = s.Next(got); got != scheduledAt {
			t.Fatalf("%q in %s: got scheduled time %s, want %s", s, in, got.In(in),
				scheduledAt.In(in))
		}
	}
	if next := s.Next(got); !next.IsZero() && !next.After(to) {
		t.Fatalf("%q in %s: got scheduled time %s, want none", s, in, next.In(in))
	}
}

// The test compares with a walk over every minute of some days around a change of the clock.
func TestNoScheduledTimeIsLostOrDoubled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := time.Duration(rapid.IntRange(0, 30*60).Draw(t, "minutes before")) * time.Minute
		var e walked = drawExpression(t, false)
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			e = drawQuartz(t)
		case 1:
			e = drawWindow(t)
		}
		checkAgainstWalk(t, e, before, 40*time.Hour, time.Minute)
	})
}

// The test compares with a walk over every second of some hours on matching days.
func TestNoSecondIsLostOrDoubled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawExpression(t, true)
		all := drawn{text: "*", star: true, values: map[int]bool{}}
		for v := range 32 {
			all.values[v] = true
		}
		e[3], e[4], e[5] = all, all, all
		checkAgainstWalk(t, e, soak.Pick(30*time.Minute, 2*time.Hour),
			soak.Pick(time.Hour, 4*time.Hour), time.Second)
	})
}

// Next increases from any start. A start between two scheduled times returns the second one.
func TestScheduledTimesIncrease(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, change := drawChange(t)
		s, err := schedule.ParseText(drawExpression(t, true).text(), in)
		if err != nil {
			t.Skip(err)
		}
		from := change.Add(time.Duration(rapid.Int64Range(-1e15, 1e15).Draw(t, "off")))
		first := s.Next(from)
		second := s.Next(first)
		if !first.After(from) || !second.After(first) || first.Nanosecond() != 0 {
			t.Fatalf("%q in %s: after %s come %s and %s", s, in, from, first, second)
		}
		between := first.Add(time.Duration(rapid.Int64Range(0, int64(second.Sub(first))-1).
			Draw(t, "into")))
		if got := s.Next(between); got != second {
			t.Fatalf("%q in %s: after %s comes %s, after %s %s", s, in, first, second, between, got)
		}
	})
}
