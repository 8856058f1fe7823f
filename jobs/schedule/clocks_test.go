package schedule_test

import (
	"testing"
	"time"
)

// Each case has a start time in the zone near a change of the clock, and the scheduled times that
// follow.
func TestClockChanges(t *testing.T) {
	for _, c := range []struct {
		name, zone, text, from string
		want                   []string
	}{
		{"forward, fixed in the gap", "Europe/Berlin", "30 2 * * *", "2026-03-28T00:00:00+01:00",
			[]string{"2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00",
				"2026-03-30T02:30:00+02:00"}},
		{"forward, several in the gap are one", "Europe/Berlin", "0,30 2 * * *",
			"2026-03-29T00:00:00+01:00",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00",
				"2026-03-30T02:30:00+02:00"}},
		{"forward, one with a scheduled time at its end", "Europe/Berlin", "0 2,3 * * *",
			"2026-03-29T00:00:00+01:00",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"}},
		{"forward, hourly off the hour", "Europe/Berlin", "30 * * * *", "2026-03-29T01:00:00+01:00",
			[]string{"2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00",
				"2026-03-29T04:30:00+02:00"}},
		{"forward, interval", "Europe/Berlin", "*/15 * * * *", "2026-03-29T01:30:00+01:00",
			[]string{"2026-03-29T01:45:00+01:00", "2026-03-29T03:00:00+02:00",
				"2026-03-29T03:15:00+02:00"}},
		{"forward, interval within the lost hour", "Europe/Berlin", "*/15 2 * * *",
			"2026-03-28T02:40:00+01:00",
			[]string{"2026-03-28T02:45:00+01:00", "2026-03-29T03:00:00+02:00",
				"2026-03-30T02:00:00+02:00"}},
		{"back, fixed", "Europe/Berlin", "30 2 * * *", "2026-10-24T12:00:00+02:00",
			[]string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
		{"back, asked between the two", "Europe/Berlin", "30 2 * * *", "2026-10-25T02:10:00+01:00",
			[]string{"2026-10-26T02:30:00+01:00"}},
		{"back, interval", "Europe/Berlin", "*/30 * * * *", "2026-10-25T01:45:00+02:00",
			[]string{"2026-10-25T02:00:00+02:00", "2026-10-25T02:30:00+02:00",
				"2026-10-25T02:00:00+01:00",
				"2026-10-25T02:30:00+01:00", "2026-10-25T03:00:00+01:00"}},
		{"back, every second hour", "Europe/Berlin", "0 */2 * * *", "2026-10-25T00:00:00+02:00",
			[]string{"2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00",
				"2026-10-25T04:00:00+01:00"}},
		{"back, interval within some hours", "Europe/Berlin", "*/30 0-22 * * *",
			"2026-10-25T02:30:00+02:00",
			[]string{"2026-10-25T02:00:00+01:00", "2026-10-25T02:30:00+01:00",
				"2026-10-25T03:00:00+01:00"}},
		{"every is not concerned", "Europe/Berlin", "@every 1h", "2026-10-25T01:30:00+02:00",
			[]string{"2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00",
				"2026-10-25T03:00:00+01:00"}},

		{"forward", "America/New_York", "15 2 * * 0", "2026-03-07T00:00:00-05:00",
			[]string{"2026-03-08T03:00:00-04:00", "2026-03-15T02:15:00-04:00"}},
		{"back", "America/New_York", "30 1 * * *", "2026-10-31T12:00:00-04:00",
			[]string{"2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"}},
		{"back, seconds", "America/New_York", "59 59 1 * * *", "2026-10-31T12:00:00-04:00",
			[]string{"2026-11-01T01:59:59-04:00", "2026-11-02T01:59:59-05:00"}},

		{"forward by half an hour", "Australia/Lord_Howe", "15 2 * * *",
			"2026-10-03T12:00:00+10:30",
			[]string{"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"}},
		{"forward by half an hour, outside", "Australia/Lord_Howe", "30 2 * * *",
			"2026-10-03T12:00:00+10:30",
			[]string{"2026-10-04T02:30:00+11:00", "2026-10-05T02:30:00+11:00"}},
		{"back by half an hour", "Australia/Lord_Howe", "45 1 * * *", "2026-04-04T12:00:00+11:00",
			[]string{"2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"}},
		{"back by half an hour, interval", "Australia/Lord_Howe", "*/15 * * * *",
			"2026-04-05T01:30:00+11:00",
			[]string{"2026-04-05T01:45:00+11:00", "2026-04-05T01:30:00+10:30",
				"2026-04-05T01:45:00+10:30",
				"2026-04-05T02:00:00+10:30"}},

		{"back for Ramadan", "Africa/Casablanca", "30 2 * * *", "2026-02-14T12:00:00+01:00",
			[]string{"2026-02-15T02:30:00+01:00", "2026-02-16T02:30:00Z"}},
		{"forward after Ramadan", "Africa/Casablanca", "30 2 * * *", "2026-03-21T12:00:00+00:00",
			[]string{"2026-03-22T03:00:00+01:00", "2026-03-23T02:30:00+01:00"}},

		{"a day that never was", "Pacific/Apia", "0 12 * * *", "2011-12-29T00:00:00-10:00",
			[]string{"2011-12-29T12:00:00-10:00", "2011-12-31T00:00:00+14:00",
				"2011-12-31T12:00:00+14:00"}},
		{"the Friday that never was", "Pacific/Apia", "0 9 * * fri", "2011-12-29T12:00:00-10:00",
			[]string{"2011-12-31T00:00:00+14:00", "2012-01-06T09:00:00+14:00"}},
		{"a day that never was, interval", "Pacific/Apia", "*/30 * * * *",
			"2011-12-29T23:15:00-10:00",
			[]string{"2011-12-29T23:30:00-10:00", "2011-12-31T00:00:00+14:00",
				"2011-12-31T00:30:00+14:00"}},

		{"no midnight", "America/Sao_Paulo", "@daily", "2018-11-03T12:00:00-03:00",
			[]string{"2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"}},
		{"two hours", "Antarctica/Troll", "30 2 * * *", "2026-03-29T00:00:00+00:00",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}},
		{"winter time is the summer's exception", "Europe/Dublin", "30 1 * * *",
			"2026-10-25T00:00:00+01:00",
			[]string{"2026-10-25T01:30:00+01:00", "2026-10-26T01:30:00Z"}},
		{"beyond the zone's table", "Europe/Berlin", "30 2 * * *", "2060-03-27T12:00:00+01:00",
			[]string{"2060-03-28T03:00:00+02:00", "2060-03-29T02:30:00+02:00"}},
		{"the end of a leap year beyond the zone's table", "Europe/Berlin", "30 2 1 1 *",
			"2040-12-31T12:00:00+01:00",
			[]string{"2041-01-01T02:30:00+01:00", "2042-01-01T02:30:00+01:00"}},
	} {
		t.Run(c.zone+": "+c.name, func(t *testing.T) {
			from, err := time.Parse(time.RFC3339, c.from)
			if err != nil {
				t.Fatal(err)
			}
			expect(t, upcoming(parse(t, c.text, zone(t, c.zone)), from, len(c.want)), c.want)
		})
	}
}
