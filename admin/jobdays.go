package admin

import (
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// calendarRuns is the number of a job's runs that the page reads for the calendar: the youngest.
// Days of older runs are not counted.
const calendarRuns = 2000

// calendarOf returns the calendar of a job. It is the only function that knows where the numbers
// come from: from the last runs of the job, newest first, of which read were asked for.
func calendarOf(view storage.JobView, outcomes []storage.Outcome, read int,
	now time.Time) *charts.Calendar {
	zone, err := time.LoadLocation(view.Zone)
	if err != nil {
		zone = time.UTC // a newer version may know the zone
	}
	tallies := make(map[time.Time]charts.DayTally)
	today := charts.DayOf(now, zone)
	known := charts.KnownDays{From: today}
	for _, o := range outcomes {
		day := charts.DayOf(o.ScheduledAt, zone)
		if day.Before(known.From) {
			known.From = day
		}
		if !o.State.Final() {
			continue
		}
		tally := tallies[day]
		tally.Add(o.State, o.ScheduledAt)
		tallies[day] = tally
	}
	known.Partly = len(outcomes) >= read
	return charts.NewCalendar(view.Name, zone, tallies, known, now)
}
