package charts

import (
	"fmt"
	"net/url"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
)

// CalendarDays is the number of days of a calendar, today included.
const CalendarDays = 30

// DayTally counts the ended runs of a job on a day.
type DayTally struct {
	Runs map[jobs.State]int
	More bool // there are more runs
	// Worst is the scheduled time of the latest of the worst runs; zero if it is not known.
	Worst time.Time

	severity int // of Worst
}

// Add counts runs, of which the latest has the scheduled time. Zero: it is not known.
func (t *DayTally) Add(state jobs.State, runs int, scheduledAt time.Time) {
	if t.Runs == nil {
		t.Runs = make(map[jobs.State]int)
	}
	t.Runs[state] += runs
	severity := 1
	switch state {
	case jobs.Failed, jobs.TimedOut, jobs.Lost:
		severity = 3
	case jobs.Skipped, jobs.Missed:
		severity = 2
	}
	if severity > t.severity || severity == t.severity && scheduledAt.After(t.Worst) {
		t.Worst, t.severity = scheduledAt, severity
	}
}

// of returns the number of runs with an outcome.
func (t DayTally) of(o outcome) (runs int) {
	for _, state := range o.states {
		runs += t.Runs[state]
	}
	return runs
}

// Calendar shows the outcomes of a job by day.
type Calendar struct {
	Zone  string
	Weeks [][]CalendarDay // seven days each, from Monday to Sunday
	Words string
	// Unknown says that the calendar has days before the first run of the history.
	Unknown bool
}

// CalendarDay is a day of a calendar. It is zero for a day outside of the calendar.
type CalendarDay struct {
	Name  string // such as 17
	Month string // such as Mar, of the first day and the first of a month
	Class string
	Mark  string // the number of the worst outcome, such as ×3
	Word  string // of the worst outcome
	// Path leads to the explanation of the worst firing of the day, or of the day's begin, or to
	// the runs of the day if no firing is known.
	Path  string
	Title string
	Today bool
}

// FirstDay returns the begin of the first day of a calendar.
func FirstDay(now time.Time, zone *time.Location) time.Time {
	return DayAfter(now, 1-CalendarDays, zone)
}

// NewCalendar draws the last days of a job in its zone, up to now. tallies has the days that have
// runs, by their begin. known is the first day of the job's history.
func NewCalendar(job string, zone *time.Location, tallies map[time.Time]DayTally, known time.Time,
	now time.Time) *Calendar {
	c := &Calendar{Zone: zone.String()}
	today := DayOf(now, zone)
	first := FirstDay(now, zone)
	var week []CalendarDay
	for range weekday(first) {
		week = append(week, CalendarDay{})
	}
	var runs, succeeded int
	more := false
	for i := range CalendarDays {
		from := DayAfter(now, 1-CalendarDays+i, zone)
		tally := tallies[from]
		day := newCalendarDay(job, from, tally)
		if from.Before(known) {
			day.Class, c.Unknown = "unknown", true
			day.Title = from.Format(time.DateOnly) + ": before the first run in the history"
		}
		more = more || tally.More
		runs += tally.of(endedOutcome())
		succeeded += tally.of(succeededOutcome())
		if i == 0 || from.Day() == 1 {
			day.Month = from.Format("Jan")
		}
		day.Today = from.Equal(today)
		if week = append(week, day); len(week) == 7 {
			c.Weeks, week = append(c.Weeks, week), nil
		}
	}
	if len(week) > 0 {
		c.Weeks = append(c.Weeks, append(week, make([]CalendarDay, 7-len(week))...))
	}
	if c.Words = words.Figure(runs, "run", "runs"); more {
		c.Words = "more than " + c.Words
	} else if runs > 0 {
		c.Words += fmt.Sprintf(", %.1f%% succeeded", float64(succeeded)/float64(runs)*100)
	}
	return c
}

// DayOf returns the begin of the day of a time in a zone.
func DayOf(t time.Time, zone *time.Location) time.Time { return DayAfter(t, 0, zone) }

// DayAfter returns the begin of the day that is a number of days after that of a time in a zone. If
// the clocks skip midnight, the day begins when they change.
func DayAfter(t time.Time, days int, zone *time.Location) time.Time {
	year, month, day := t.In(zone).Date()
	begin := time.Date(year, month, day+days, 0, 0, 0, 0, zone)
	if begin.Day() != time.Date(year, month, day+days, 12, 0, 0, 0, zone).Day() {
		_, begin = begin.ZoneBounds() // it was before the change of the clocks
	}
	return begin
}

// weekday counts from Monday.
func weekday(t time.Time) int { return (int(t.Weekday()) + 6) % 7 }

func newCalendarDay(job string, from time.Time, tally DayTally) CalendarDay {
	const many = 3
	failed, skipped := tally.of(failedOutcome()), tally.of(skippedOutcome())
	runs := tally.of(endedOutcome())
	text, moreThan := "", ""
	if tally.More {
		text, moreThan = "+", "more than "
	}
	day := CalendarDay{Name: fmt.Sprint(from.Day()), Path: param.ExplainPath(job, from),
		Title: fmt.Sprintf("%s: %s%s, %s failed, %s skipped", from.Format(time.DateOnly), moreThan,
			words.Figure(runs, "run", "runs"), words.Count(failed), words.Count(skipped))}
	switch {
	case !tally.Worst.IsZero():
		day.Path = param.ExplainPath(job, tally.Worst)
	case runs > 0:
		day.Path = param.Address("/runs", url.Values{"job": {job},
			"from":  {from.UTC().Format(time.RFC3339)},
			"until": {DayAfter(from, 1, from.Location()).UTC().Format(time.RFC3339)}})
	}
	switch {
	case failed > 0:
		day.Class, day.Mark, day.Word = "bad", "×"+words.Brief(failed)+text, "failed"
	case skipped > 0:
		day.Class, day.Mark, day.Word = "warn", "–\u00a0"+words.Brief(skipped)+text, "skipped"
	case runs > 0:
		day.Class, day.Mark, day.Word = "good", words.Brief(runs)+text, "ok"
	default:
		day.Class, day.Title = "none", from.Format(time.DateOnly)+": no runs"
	}
	if failed >= many || failed == 0 && skipped >= many {
		day.Class += " many"
	}
	return day
}
