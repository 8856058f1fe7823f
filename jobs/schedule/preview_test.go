package schedule_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// Each case has the preview of scheduled times near a change of the clock.
func TestPreview(t *testing.T) {
	for _, c := range []struct {
		zone, text, from string
		want             []string
	}{
		{"Europe/Berlin", "30 2 * * *", "2026-03-28T00:00:00+01:00", []string{"03-28 02:30", "03-29 03:00 02:00 to 03:00 does not exist: run after the gap; clocks went forward by 1h", "03-30 02:30"}},
		{"Europe/Berlin", "30 2 * * *", "2026-10-24T12:00:00+02:00", []string{"10-25 02:30 02:30 comes twice: the first time", "10-26 02:30 clocks went back by 1h"}},
		{"Europe/Berlin", "*/30 * * * *", "2026-10-25T01:30:00+02:00",
			[]string{"10-25 02:00 02:00 comes twice: the first time",
				"10-25 02:30 02:30 comes twice: the first time",
				"10-25 02:00 02:00 comes twice: the second time; clocks went back by 1h",
				"10-25 02:30 02:30 comes twice: the second time", "10-25 03:00"}},
		{"Europe/Berlin", "*/30 * * * *", "2026-03-29T01:10:00+01:00", []string{"03-29 01:30", "03-29 03:00 clocks went forward by 1h"}},
		{"Europe/Berlin", "0 2,3 * * *", "2026-03-29T01:10:00+01:00", []string{"03-29 03:00 02:00 to 03:00 does not exist: run after the gap; clocks went forward by 1h"}},
		{"Europe/Berlin", "every:1h", "2026-03-29T01:00:00+01:00", []string{"03-29 03:00 clocks went forward by 1h", "03-29 04:00"}},
		{"Australia/Lord_Howe", "every day at 02:15", "2026-10-03T12:00:00+10:30", []string{"10-04 02:30 02:00 to 02:30 does not exist: run after the gap; clocks went forward by 30m"}},
		{"Pacific/Apia", "0 12 * * *", "2011-12-29T12:00:00-10:00", []string{"12-31 00:00 2011-12-30 00:00 to 2011-12-31 00:00 does not exist: run after the gap; clocks went forward by 24h", "12-31 12:00"}},
		{"UTC", "0 12 * * *", "2026-03-28T00:00:00Z", []string{"03-28 12:00"}},
	} {
		from, err := time.Parse(time.RFC3339, c.from)
		if err != nil {
			t.Fatal(err)
		}
		in := zone(t, c.zone)
		var got []string
		for _, o := range parse(t, c.text, in).Preview(from, len(c.want), false) {
			got = append(got, strings.TrimSpace(o.ScheduledAt.In(in).
				Format("01-02 15:04 ")+o.Change))
		}
		expect(t, got, c.want)
	}
}

func TestPreviewOfExclusions(t *testing.T) {
	weekends := calendar(t, schedule.CalendarSpec{Name: "weekends",
		Exclude: schedule.TimesSpec{Weekdays: []string{"sat-sun"}}})
	s := parse(t, "0 9 * * *", time.UTC).WithCalendars(weekends)
	from := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	show := func(all []schedule.Occurrence) (texts []string) {
		for _, o := range all {
			texts = append(texts,
				strings.TrimSpace(fmt.Sprintf("%s %s", o.ScheduledAt.Format("Mon 2"),
					o.ExcludedBy)))
		}
		return texts
	}
	expect(t, show(s.Preview(from, 2, true)),
		[]string{"Fri 2", "Sat 3 weekends", "Sun 4 weekends", "Mon 5"})
	expect(t, show(s.Preview(from, 2, false)), []string{"Fri 2", "Mon 5"})

	// A long exclusion is cut, and the following scheduled times are shown.
	year := calendar(t, schedule.CalendarSpec{Name: "year",
		Exclude: schedule.TimesSpec{Dates: []string{"2026-01-03..2026-12-31"}}})
	all := parse(t, "*/5 * * * *", time.UTC).WithCalendars(year).
		Preview(from.Add(24*time.Hour), 2, true)
	if len(all) != 502 || all[499].ExcludedBy != "year" || all[500].ExcludedBy != "" ||
		all[500].ScheduledAt.Format(time.DateOnly) != "2027-01-01" {
		t.Errorf("%d shown, the last: %+v", len(all), all[len(all)-1])
	}
	if got := (schedule.Schedule{}).Preview(from, 2, true); got != nil {
		t.Errorf("the zero Schedule shows %v", got)
	}
}
