package schedule_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/speedtest"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// slowTexts are the texts that take longest to parse or to find a scheduled time for.
func slowTexts() []string {
	return []string{
		"0 0 29 2 */7", "0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "59 59 23 31 12 0", "* * * * * *",
		"quartz:0 0 0 30 2 ?", "quartz:0 0 0 31 4,6,9,11,2 ? 1970-2999",
		"quartz:0 0 0 29 2 ? 2001/4", "quartz:0 0 0 ? 2 5#5", "quartz:0 0 0 ? 2 7#5 2999",
		"quartz:59 59 23 31 12 ? 2999", "quartz:0 0 0 31W 2 ?", "quartz:0 0 0 L-30W 2,4 ?",
		"quartz:" + strings.Repeat("*,", 500) + "* * * * * ?",
		"every 1000 years on 29 feb from 2001-01-01", "every 1000 months on last from 2001-01-01",
		"every 1000 weeks on sun from 2001-01-01",
		"every 1000 days from 9999-12-31", "every 1s between 22:00 and 21:59",
		"at:9999-12-31T23:59:59Z", "every:24000h",
	}
}

func TestNextIsQuick(t *testing.T) {
	from := time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)
	for _, name := range []string{"UTC", "Europe/Berlin", "Africa/Casablanca"} {
		in := zone(t, name)
		for _, text := range slowTexts() {
			speedtest.Within10ms(t, text+" in "+name, func() {
				if s, err := schedule.ParseText(text, in); err == nil {
					s.Preview(from, 1, true)
				}
			})
		}
	}
}

// The calendars exclude years, or all times.
func TestNextIsQuickWithCalendars(t *testing.T) {
	var events []string
	for i := range 100 {
		events = append(events,
			fmt.Sprintf("DTSTART:20200101\nRRULE:FREQ=YEARLY;BYMONTH=%d;BYDAY=%dMO", i%12+1, i%4+1))
	}
	from := time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)
	for name, spec := range map[string]schedule.CalendarSpec{
		"the night":          {Exclude: schedule.TimesSpec{Windows: []string{"22:00-06:00"}}},
		"all but a leap day": {Only: schedule.TimesSpec{Dates: []string{"02-29"}}},
		"a past date":        {Only: schedule.TimesSpec{Dates: []string{"2020-02-29"}}},
		"a future date":      {Only: schedule.TimesSpec{Dates: []string{"2999-02-28"}}},
		"holidays":           {Exclude: schedule.TimesSpec{Files: file("a.ics", ics(events...))}},
	} {
		c := calendar(t, spec)
		for _, text := range []string{"0 3 * * *", "* * * * * *", "every:1s", "0 0 29 2 *"} {
			s := parse(t, text, zone(t, "Europe/Berlin")).WithCalendars(c)
			speedtest.Within10ms(t, text+" without "+name, func() { s.Next(from) })
			speedtest.Within10ms(t, text+" with what excludes it, "+name, func() {
				s.Preview(from, 1, true)
			})
		}
	}
}
