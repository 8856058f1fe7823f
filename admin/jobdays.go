package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// calendarRuns is the number of a job's runs that the page reads for the calendar: the
	// youngest. Of the days before, the store counts the runs.
	calendarRuns = 2000
	// maxOfDay is the number of runs of a day that the store counts.
	maxOfDay = 10_000
)

// countedDays are consecutive days of a job in its zone.
type countedDays struct {
	job         string
	first, last time.Time // the begins of the first day and of the last one, in the zone
}

// parts returns the days as parts of a time.
func (d countedDays) parts() (parts []storage.JobPart) {
	for from := d.first; !from.After(d.last); from = from.AddDate(0, 0, 1) {
		parts = append(parts, storage.JobPart{Job: d.job, From: from, Until: from.AddDate(0, 0, 1)})
	}
	return parts
}

// dayCounter counts the runs of a job by day.
type dayCounter struct {
	*reader
	days *records.Keyed[countedDays, []storage.JobPartCount]
}

func newDayCounter(r *reader) *dayCounter {
	c := &dayCounter{reader: r}
	c.days = records.NewKeyed(records.CacheLifetime, c.countDays)
	return c
}

// calendar returns the calendar of a job from its last runs, the newest first. If there are more
// runs, the store counts those of the days that were not read completely.
func (r *dayCounter) calendar(ctx context.Context, view storage.JobView, outcomes []storage.Outcome,
	read int, now time.Time) (*charts.Calendar, error) {
	zone, err := time.LoadLocation(view.Zone)
	if err != nil {
		zone = time.UTC // a newer version may know the zone
	}
	tallies := make(map[time.Time]charts.DayTally)
	known := charts.DayOf(now, zone)
	for _, o := range outcomes {
		day := charts.DayOf(o.ScheduledAt, zone)
		if day.Before(known) {
			known = day
		}
		if o.State.Final() {
			tally := tallies[day]
			tally.Add(o.State, 1, o.ScheduledAt)
			tallies[day] = tally
		}
	}
	first := charts.FirstDay(now, zone)
	if len(outcomes) < read || known.Before(first) {
		return charts.NewCalendar(view.Name, zone, tallies, known, now), nil
	}
	days := countedDays{view.Name, first, known}
	counts, err := r.days.Get(ctx, days, now)
	if err != nil {
		return nil, fmt.Errorf("days of job: %w", err)
	}
	for i, part := range days.parts() {
		if counts[i].Runs > 0 && part.From.Before(known) {
			known = part.From
		}
		tallies[part.From] = tallyOf(counts[i])
	}
	return charts.NewCalendar(view.Name, zone, tallies, known, now), nil
}

// tallyOf returns the numbers of a day without active runs.
func tallyOf(c storage.JobPartCount) (tally charts.DayTally) {
	tally.More = c.More
	succeeded := c.Runs
	for state, n := range c.Unsuccessful {
		tally.Add(state, n, c.Last[state])
		succeeded -= n
	}
	if succeeded > 0 {
		tally.Add(jobs.Succeeded, succeeded, time.Time{})
	}
	return tally
}

// countDays counts the ended runs of days.
func (r *dayCounter) countDays(ctx context.Context, days countedDays,
	_ time.Time) ([]storage.JobPartCount, error) {
	parts := days.parts()
	counts, err := r.Store.CountRuns(ctx, parts, maxOfDay)
	if err != nil {
		return nil, err
	}
	active, err := r.Active(ctx, days.job)
	for _, run := range active {
		for i, part := range parts {
			if !run.CreatedAt.Before(part.From) && run.CreatedAt.Before(part.Until) {
				counts[i].Runs--
			}
		}
	}
	return counts, err
}
