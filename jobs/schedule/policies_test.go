package schedule_test

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// Skip and Both change some scheduled times. They change nothing for schedules with constant
// intervals.
func TestClockChangePolicies(t *testing.T) {
	skip, both := schedule.ClockChanges{Skip: true}, schedule.ClockChanges{Both: true}
	for _, c := range []struct {
		zone, text, from string
		changes          schedule.ClockChanges
		want             []string
	}{
		{"Europe/Berlin", "30 2 * * *", "2026-03-28T00:00:00+01:00", skip,
			[]string{"2026-03-28T02:30:00+01:00", "2026-03-30T02:30:00+02:00"}},
		{"Europe/Berlin", "30 2 * * *", "2026-03-28T00:00:00+01:00", both,
			[]string{"2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00"}},
		{"Europe/Berlin", "30 2,3 * * *", "2026-03-29T00:00:00+01:00", skip,
			[]string{"2026-03-29T03:30:00+02:00", "2026-03-30T02:30:00+02:00"}},
		{"Europe/Berlin", "30 2 * * *", "2026-10-24T12:00:00+02:00", both,
			[]string{"2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00",
				"2026-10-26T02:30:00+01:00"}},
		{"Europe/Berlin", "30 2 * * *", "2026-10-24T12:00:00+02:00", skip,
			[]string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
		{"Europe/Berlin", "*/30 * * * *", "2026-03-29T01:20:00+01:00", skip,
			[]string{"2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00"}},
		{"Europe/Berlin", "quartz:0 30 2 * * ?", "2026-03-28T12:00:00+01:00", skip,
			[]string{"2026-03-30T02:30:00+02:00"}},
		{"Europe/Berlin", "every 1 day at 02:30", "2026-03-28T12:00:00+01:00", schedule.ClockChanges{},
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}},
		{"Europe/Berlin", "every 1 day at 02:30", "2026-03-28T12:00:00+01:00", skip,
			[]string{"2026-03-30T02:30:00+02:00"}},
		{"Europe/Berlin", "every 1 day at 02:30", "2026-10-25T00:00:00+02:00", both,
			[]string{"2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00",
				"2026-10-26T02:30:00+01:00"}},
		{"Europe/Berlin", "every 20m between 02:10 and 03:30", "2026-03-29T00:00:00+01:00", schedule.ClockChanges{},
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-29T03:10:00+02:00",
				"2026-03-29T03:30:00+02:00", "2026-03-30T02:10:00+02:00"}},
		{"Europe/Berlin", "every 20m between 02:10 and 03:30", "2026-03-29T00:00:00+01:00", skip,
			[]string{"2026-03-29T03:10:00+02:00", "2026-03-29T03:30:00+02:00",
				"2026-03-30T02:10:00+02:00"}},
		{"Europe/Berlin", "every 20m on sun", "2026-03-29T01:30:00+01:00", schedule.ClockChanges{},
			[]string{"2026-03-29T01:40:00+01:00", "2026-03-29T03:00:00+02:00",
				"2026-03-29T03:20:00+02:00"}},
		{"Europe/Berlin", "every 50m on sun", "2026-03-29T01:30:00+01:00", schedule.ClockChanges{},
			[]string{"2026-03-29T01:40:00+01:00", "2026-03-29T03:20:00+02:00"}},
		{"Europe/Berlin", "every 150m on sun", "2026-03-29T00:00:00+01:00", schedule.ClockChanges{},
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-29T05:00:00+02:00"}},
		{"Europe/Berlin", "every 30m between 01:30 and 03:00", "2026-10-25T01:00:00+02:00", schedule.ClockChanges{},
			[]string{"2026-10-25T01:30:00+02:00", "2026-10-25T02:00:00+02:00",
				"2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+01:00",
				"2026-10-25T02:30:00+01:00", "2026-10-25T03:00:00+01:00",
				"2026-10-26T01:30:00+01:00"}},
		{"Australia/Lord_Howe", "15 2 * * *", "2026-10-03T12:00:00+10:30", skip, []string{"2026-10-05T02:15:00+11:00"}},
		{"Australia/Lord_Howe", "45 1 * * *", "2026-04-05T00:00:00+11:00", both,
			[]string{"2026-04-05T01:45:00+11:00", "2026-04-05T01:45:00+10:30",
				"2026-04-06T01:45:00+10:30"}},
		{"Antarctica/Troll", "30 1,2 * * *", "2026-03-29T00:00:00+00:00", skip,
			[]string{"2026-03-30T01:30:00+02:00", "2026-03-30T02:30:00+02:00"}},
		{"Antarctica/Troll", "30 1 * * *", "2026-10-25T00:00:00+02:00", both,
			[]string{"2026-10-25T01:30:00+02:00", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"}},
		{"Pacific/Apia", "0 12 * * *", "2011-12-29T20:00:00-10:00", skip, []string{"2011-12-31T12:00:00+14:00"}},
		{"Africa/Casablanca", "30 2 * * *", "2026-03-21T12:00:00+00:00", skip, []string{"2026-03-23T02:30:00+01:00"}},
		{"Africa/Casablanca", "30 2 * * *", "2026-02-15T00:00:00+01:00", both,
			[]string{"2026-02-15T02:30:00+01:00", "2026-02-15T02:30:00Z", "2026-02-16T02:30:00Z"}},
		{"Europe/Dublin", "30 1 * * *", "2026-10-25T00:00:00+01:00", both,
			[]string{"2026-10-25T01:30:00+01:00", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"}},
	} {
		t.Run(c.zone+": "+c.text, func(t *testing.T) {
			from, err := time.Parse(time.RFC3339, c.from)
			if err != nil {
				t.Fatal(err)
			}
			s := parse(t, c.text, zone(t, c.zone)).WithClockChanges(c.changes)
			expect(t, upcoming(s, from, len(c.want)), c.want)
		})
	}
}

// scheduledTimesBetween returns the scheduled times of an interval, and checks that they increase.
func scheduledTimesBetween(t *testing.T, s schedule.Schedule, from, until time.Time) []time.Time {
	t.Helper()
	var all []time.Time
	last := from
	for scheduledAt := s.Next(from); scheduledAt.Before(until); scheduledAt = s.Next(scheduledAt) {
		if !scheduledAt.After(last) {
			t.Fatalf("%s: after %s comes %s", s, last, scheduledAt)
		}
		all = append(all, scheduledAt)
		last = scheduledAt
	}
	return all
}

// calendarDates counts scheduled times by their date in the zone.
func calendarDates(t *testing.T, s schedule.Schedule, from, until time.Time) map[string]int {
	t.Helper()
	dates := map[string]int{}
	for _, scheduledAt := range scheduledTimesBetween(t, s, from, until) {
		dates[scheduledAt.In(s.Zone()).Format(time.DateOnly)]++
	}
	return dates
}

// The test checks ten years of the zones with the most unusual rules. A daily schedule fires once
// on each date. On dates whose local time is missing or occurs twice, the policy decides. Intervals
// remain constant.
func TestTenYears(t *testing.T) {
	for _, c := range []struct {
		zone  string
		year  int
		clock string // "minute hour" that is missing or doubled at changes
		gaps  int    // number of dates without that time
		twice int    // number of dates with that time twice
	}{
		{"Australia/Lord_Howe", 2016, "15 2", 10, 0},
		{"Australia/Lord_Howe", 2016, "45 1", 0, 10},
		{"Antarctica/Troll", 2016, "30 1", 10, 10},
		{"Antarctica/Troll", 2016, "30 2", 10, 10},
		{"Pacific/Apia", 2006, "30 3", 6, 5},  // summer time from 2011 on, and the missing day
		{"Pacific/Apia", 2006, "30 12", 1, 0}, // the missing day
		{"Africa/Casablanca", 2016, "30 2", 13, 12},
		{"Europe/Dublin", 2016, "30 1", 10, 10},
		{"Europe/Berlin", 2016, "30 2", 10, 10},
	} {
		t.Run(c.zone+" "+c.clock, func(t *testing.T) {
			in := zone(t, c.zone)
			from := time.Date(c.year, 1, 1, 0, 0, 0, 0, in).Add(-time.Second)
			until := time.Date(c.year+10, 1, 1, 0, 0, 0, 0, in)
			gaps, twice := checkDaily(t, c.clock, in, from, until)
			if gaps != c.gaps || twice != c.twice {
				t.Errorf("%d gaps and %d times that exist twice, want %d and %d", gaps, twice,
					c.gaps, c.twice)
			}
		})
	}
}

// Around each change of the clock, intervals neither pause nor fire too often. A soak checks all
// ten years.
func TestTenEvenYears(t *testing.T) {
	for name, year := range map[string]int{"Australia/Lord_Howe": 2016, "Antarctica/Troll": 2016,
		"Pacific/Apia": 2006, "Africa/Casablanca": 2016, "Europe/Dublin": 2016} {
		t.Run(name, func(t *testing.T) {
			in := zone(t, name)
			from := time.Date(year, 1, 1, 0, 0, 0, 0, in)
			until := from.AddDate(10, 0, 0)
			if soak.Running() {
				checkEven(t, in, from, until)
				return
			}
			changes := 0
			for _, change := from.ZoneBounds(); change.Before(until) &&
				!change.IsZero(); _, change = change.ZoneBounds() {
				checkEven(t, in, change.AddDate(0, 0, -2), change.AddDate(0, 0, 2))
				changes++
			}
			if changes < 10 {
				t.Errorf("the clock changed %d times", changes)
			}
		})
	}
}

// checkDaily compares the policies with each other and with the calendar. It counts the dates
// without the local time and those with it twice.
func checkDaily(t *testing.T, clock string, in *time.Location, from,
	until time.Time) (gaps, twice int) {
	t.Helper()
	s := parse(t, clock+" * * *", in)
	run := calendarDates(t, s, from, until)
	skip := calendarDates(t, s.WithClockChanges(schedule.ClockChanges{Skip: true}), from, until)
	both := calendarDates(t, s.WithClockChanges(schedule.ClockChanges{Both: true}), from, until)
	days, scheduledTimes := 0, 0
	for day := time.Date(until.Year()-10, 1, 1, 12, 0, 0, 0,
		time.UTC); day.Year() < until.Year(); day = day.AddDate(0, 0, 1) {
		days++
		date := day.Format(time.DateOnly)
		scheduledTimes += run[date]
		gaps += 1 - skip[date]
		twice += both[date] - run[date]
		missing := time.Date(day.Year(), day.Month(), day.Day(), 12, 0, 0, 0, in).
			Format(time.DateOnly) != date
		if !missing && run[date] < 1 || run[date] > 2 || skip[date] > 1 || both[date] < run[date] {
			t.Errorf("%s: %d scheduled times, %d if gaps are skipped, %d if both are run", date,
				run[date], skip[date], both[date])
		}
	}
	if scheduledTimes != days {
		t.Errorf("%d scheduled times on %d days", scheduledTimes, days)
	}
	return gaps, twice
}

func checkEven(t *testing.T, in *time.Location, from, until time.Time) {
	t.Helper()
	for text, want := range map[string]time.Duration{"*/15 * * * *": 15 * time.Minute,
		"every 30m between 00:00 and 24:00": 30 * time.Minute} {
		scheduledTimes := scheduledTimesBetween(t, parse(t, text, in), from, until)
		for i := 1; i < len(scheduledTimes); i++ {
			if gap := scheduledTimes[i].Sub(scheduledTimes[i-1]); gap != want {
				t.Errorf("%s: %s between %s and %s", text, gap, scheduledTimes[i-1].In(in),
					scheduledTimes[i].In(in))
			}
		}
	}
	scheduledTimes := scheduledTimesBetween(t, parse(t, "0 */2 * * *", in), from, until)
	for i := 1; i < len(scheduledTimes); i++ {
		if gap := scheduledTimes[i].Sub(scheduledTimes[i-1]); gap < 30*time.Minute ||
			gap > 4*time.Hour {
			t.Errorf("every second hour: %s between %s and %s", gap, scheduledTimes[i-1].In(in),
				scheduledTimes[i].In(in))
		}
	}
}
