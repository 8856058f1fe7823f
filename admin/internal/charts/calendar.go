package charts

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
)

// CalendarDays is the number of days of a calendar, today included.
const CalendarDays = 30

// DayTally counts the ended runs of a job by the day of their scheduled times.
type DayTally struct {
	Runs map[jobs.State]int
	// Worst is the scheduled time of the latest of the worst runs; zero if it is not known.
	Worst time.Time

	severity int // of Worst
}

// Add counts a run.
func (t *DayTally) Add(state jobs.State, scheduledAt time.Time) {
	if t.Runs == nil {
		t.Runs = make(map[jobs.State]int)
	}
	t.Runs[state]++
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
	// Unknown says that some days are not counted, or not completely.
	Unknown bool
}

// CalendarDay is a day of a calendar. It is zero for a day outside of the calendar.
type CalendarDay struct {
	Name  string // such as 17
	Month string // such as Mar, of the first day and the first of a month
	Class string
	Mark  string // the number of the worst outcome, such as ×3
	Word  string // of the worst outcome
	Path  string // the explanation of the worst firing of the day, or of the day's begin
	Title string
	Today bool
}

// KnownDays are the days of which runs were read.
type KnownDays struct {
	From   time.Time // the begin of the first one
	Partly bool      // of the first one, older runs were not read
}

// NewCalendar draws the last days of a job in its zone, up to now. tallies has the days that have
// runs, by their begin.
func NewCalendar(job string, zone *time.Location, tallies map[time.Time]DayTally, known KnownDays,
	now time.Time) *Calendar {
	c := &Calendar{Zone: zone.String()}
	today := DayOf(now, zone)
	first := today.AddDate(0, 0, 1-CalendarDays)
	var week []CalendarDay
	for range weekday(first) {
		week = append(week, CalendarDay{})
	}
	var runs, succeeded int
	for i := range CalendarDays {
		from := first.AddDate(0, 0, i)
		tally := tallies[from]
		day := newCalendarDay(job, from, tally)
		switch {
		case from.Before(known.From):
			day.Class, day.Title = "unknown", from.Format(time.DateOnly)+": not counted"
		case from.Equal(known.From) && known.Partly:
			day.Class, day.Mark = "unknown", day.Mark+"+"
			day.Title += ", without the oldest runs of the day"
		}
		c.Unknown = c.Unknown || day.Class == "unknown"
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
	c.Words = words.Figure(runs, "run", "runs")
	if runs > 0 {
		c.Words += fmt.Sprintf(", %.1f%% succeeded", float64(succeeded)/float64(runs)*100)
	}
	return c
}

// DayOf returns the begin of the day of a time in a zone.
func DayOf(t time.Time, zone *time.Location) time.Time {
	year, month, day := t.In(zone).Date()
	return time.Date(year, month, day, 0, 0, 0, 0, zone)
}

// weekday counts from Monday.
func weekday(t time.Time) int { return (int(t.Weekday()) + 6) % 7 }

func newCalendarDay(job string, from time.Time, tally DayTally) CalendarDay {
	const many = 3
	failed, skipped := tally.of(failedOutcome()), tally.of(skippedOutcome())
	runs := tally.of(endedOutcome())
	day := CalendarDay{Name: fmt.Sprint(from.Day()), Path: param.ExplainPath(job, from),
		Title: fmt.Sprintf("%s: %s, %d failed, %d skipped", from.Format(time.DateOnly),
			words.Figure(runs, "run", "runs"), failed, skipped)}
	if !tally.Worst.IsZero() {
		day.Path = param.ExplainPath(job, tally.Worst)
	}
	switch {
	case failed > 0:
		day.Class, day.Mark, day.Word = "bad", fmt.Sprintf("×%d", failed), "failed"
	case skipped > 0:
		day.Class, day.Mark, day.Word = "warn", fmt.Sprintf("–\u00a0%d", skipped), "skipped"
	case runs > 0:
		day.Class, day.Mark, day.Word = "good", fmt.Sprint(runs), "ok"
	default:
		day.Class, day.Title = "none", from.Format(time.DateOnly)+": no runs"
	}
	if failed >= many || failed == 0 && skipped >= many {
		day.Class += " many"
	}
	return day
}
