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

// countedDays are consecutive days of a job in its zone. The zone is a name, because
// time.LoadLocation returns another pointer each time.
type countedDays struct {
	job, zone   string
	first, last int64 // the begins of the first day and of the last one, in Unix seconds
}

// parts returns the days as parts of a time. zone is that of the days.
func (d countedDays) parts(zone *time.Location) (parts []storage.JobPart) {
	for from := time.Unix(d.first, 0).In(zone); from.Unix() <= d.last; {
		next := charts.DayAfter(from, 1, zone)
		parts = append(parts, storage.JobPart{Job: d.job, From: from, Until: next})
		from = next
	}
	return parts
}

// zoneOf returns the zone with a name, or UTC: a newer version may know the zone.
func zoneOf(name string) *time.Location {
	zone, err := time.LoadLocation(name)
	if err != nil {
		return time.UTC
	}
	return zone
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
	zone := zoneOf(view.Zone)
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
	days := countedDays{view.Name, view.Zone, first.Unix(), known.Unix()}
	counts, err := r.days.Get(ctx, days, now)
	if err != nil {
		return nil, fmt.Errorf("days of job: %w", err)
	}
	for i, part := range days.parts(zone) {
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
	parts := days.parts(zoneOf(days.zone))
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
