package charts

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// TestCalendar draws a job in Berlin on the day after its clocks went forward. Its history begins
// in the middle of a day.
func TestCalendar(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 30, 1, 0, 0, 0, zone)
	day := func(month time.Month, day int) time.Time {
		return time.Date(2026, month, day, 0, 0, 0, 0, zone)
	}
	tallies := make(map[time.Time]DayTally)
	add := func(at time.Time, states ...jobs.State) {
		tally := tallies[DayOf(at, zone)]
		for i, state := range states {
			tally.Add(state, 1, at.Add(time.Duration(i)*time.Hour))
		}
		tallies[DayOf(at, zone)] = tally
	}
	add(day(3, 6), jobs.Succeeded, jobs.Skipped)
	add(day(3, 7), jobs.Succeeded, jobs.Cancelled)
	add(day(3, 8), jobs.Skipped, jobs.Missed, jobs.Skipped)
	add(day(3, 28), jobs.Failed, jobs.Skipped, jobs.Lost, jobs.Succeeded)
	add(day(3, 29), jobs.Failed, jobs.TimedOut, jobs.Lost)
	many := tallies[day(3, 6)]
	many.More = true
	tallies[day(3, 6)] = many
	var counted DayTally // the scheduled times are not known
	counted.Add(jobs.Succeeded, 12_345, time.Time{})
	tallies[day(3, 27)] = counted
	c := NewCalendar("a/b", zone, tallies, day(3, 6), now)
	var drawn []CalendarDay
	for _, week := range c.Weeks {
		if len(week) != 7 {
			t.Fatalf("a week has %d days", len(week))
		}
		drawn = append(drawn, week...)
	}
	if len(drawn) != 42 || drawn[5].Name != "" || drawn[6].Name != "1" || drawn[36].Name != "" {
		t.Fatalf("days are %+v", drawn)
	}
	want := []struct {
		number int // of the day in March
		day    CalendarDay
	}{
		{1, CalendarDay{Class: "unknown", Title: "2026-03-01: before the first run in the history", Month: "Mar", Path: "2026-02-28T23:00:00Z"}},
		{6, CalendarDay{Class: "warn", Mark: "–\u00a01+", Word: "skipped", Title: "2026-03-06: more than 2 runs, 0 failed, 1 skipped", Path: "2026-03-06T00:00:00Z"}},
		{7, CalendarDay{Class: "good", Mark: "2", Word: "ok", Title: "2026-03-07: 2 runs, 0 failed, 0 skipped", Path: "2026-03-07T00:00:00Z"}},
		{8, CalendarDay{Class: "warn many", Mark: "–\u00a03", Word: "skipped", Title: "2026-03-08: 3 runs, 0 failed, 3 skipped", Path: "2026-03-08T01:00:00Z"}},
		{9, CalendarDay{Class: "none", Title: "2026-03-09: no runs", Path: "2026-03-08T23:00:00Z"}},
		{27, CalendarDay{Class: "good", Mark: "12.3k", Word: "ok", Title: "2026-03-27: 12,345 runs, 0 failed, 0 skipped", Path: "/runs?from=2026-03-26T23:00:00Z&job=a/b&until=2026-03-27T23:00:00Z"}},
		{28, CalendarDay{Class: "bad", Mark: "×2", Word: "failed", Title: "2026-03-28: 4 runs, 2 failed, 1 skipped", Path: "2026-03-28T01:00:00Z"}},
		{29, CalendarDay{Class: "bad many", Mark: "×3", Word: "failed", Title: "2026-03-29: 3 runs, 3 failed, 0 skipped", Path: "2026-03-29T01:00:00Z"}},
		{30, CalendarDay{Class: "none", Title: "2026-03-30: no runs", Path: "2026-03-29T22:00:00Z", Today: true}},
	}
	for _, test := range want {
		number, day := test.number, test.day
		got := drawn[5+number]
		at := strings.NewReplacer("%3A", ":", "%2F", "/").Replace(got.Path)
		if !strings.HasPrefix(at, "/jobs/a/b/explain?at=") && number != 27 ||
			!strings.HasSuffix(at, day.Path) {
			t.Errorf("%d March leads to %s, want %s", number, at, day.Path)
		}
		got.Path, got.Name, day.Path = "", "", ""
		if got != day {
			t.Errorf("%d March is %+v, want %+v", number, got, day)
		}
	}
	if !c.Unknown || c.Words != "more than 12,359 runs" {
		t.Errorf("words are %q, unknown %v", c.Words, c.Unknown)
	}
}

// TestCalendarWithoutMidnights draws jobs in zones whose clocks skip midnight on one day. Each day
// has one run at noon.
func TestCalendarWithoutMidnights(t *testing.T) {
	for name, test := range map[string]struct {
		zone  string
		first time.Time // when the day begins
	}{
		// time.Date returns 23:00 on the day before for midnight in Santiago, and 01:00 in Cairo
		"Santiago": {"America/Santiago", time.Date(2026, 9, 6, 4, 0, 0, 0, time.UTC)},
		"Cairo":    {"Africa/Cairo", time.Date(2026, 4, 23, 22, 0, 0, 0, time.UTC)},
	} {
		zone, err := time.LoadLocation(test.zone)
		if err != nil {
			t.Fatal(err)
		}
		if local := test.first.In(zone); local.Hour() != 1 ||
			local.Add(-time.Second).Hour() != 23 {
			t.Fatalf("%s: the clocks do not skip midnight at %s", name, local)
		}
		for _, after := range []int{0, 1, 14, CalendarDays - 1} { // days since the clocks changed
			year, month, today := test.first.In(zone).Date()
			noon := func(i int) time.Time { // of the day i of the calendar
				return time.Date(year, month, today+after+1-CalendarDays+i, 12, 0, 0, 0, zone)
			}
			now, tallies := noon(CalendarDays-1), make(map[time.Time]DayTally)
			for i := range CalendarDays {
				var tally DayTally
				tally.Add(jobs.Succeeded, 1, time.Time{})
				tallies[DayOf(noon(i), zone)] = tally
			}
			c := NewCalendar("a", zone, tallies, FirstDay(now, zone), now)
			if want := "30 runs, 100.0% succeeded"; c.Words != want || c.Unknown {
				t.Errorf("%s after %d days: got %q, unknown %v, want %q", name, after, c.Words,
					c.Unknown, want)
			}
			i := 0
			for place, day := range slices.Concat(c.Weeks...) {
				if day.Name == "" {
					continue
				}
				want := noon(i)
				title := want.Format(time.DateOnly) + ": 1 run, 0 failed, 0 skipped"
				if day.Title != title || day.Name != want.Format("2") ||
					place%7 != weekday(want) || day.Today != (i == CalendarDays-1) {
					t.Errorf("%s after %d days: day %d at %d is %+v, want %s", name, after, i,
						place, day, title)
				}
				i++
			}
			if i != CalendarDays {
				t.Errorf("%s after %d days: got %d days, want %d", name, after, i, CalendarDays)
			}
		}
		begin, tomorrow := DayOf(test.first, zone), DayOf(test.first.Add(24*time.Hour), zone)
		yesterday := DayOf(test.first.Add(-time.Second), zone)
		if !begin.Equal(test.first) || tomorrow.Sub(begin) != 23*time.Hour ||
			begin.Sub(yesterday) != 24*time.Hour {
			t.Errorf("%s: the days begin at %s, %s, %s, want one at %s", name, yesterday, begin,
				tomorrow, test.first.In(zone))
		}
	}
}
