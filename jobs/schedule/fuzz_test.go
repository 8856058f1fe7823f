package schedule_test

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/speedtest"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// The parser either refuses a text, or the schedule has scheduled times in whole seconds that
// increase. Its String parses to the same schedule. Both take at most ten milliseconds.
func FuzzParseText(f *testing.F) {
	for _, text := range []string{"*/5 * * * *", "0 0 29 2 */7", "@every 90s", "every:1h",
		"at:2026-01-31T09:00:00Z",
		"TZ=UTC", ", * * * *", "0 0 30 2 *", "0 0 * * 5-7", "59-59/60 23 31 12 sat", "? ? ? ? ?",
		"@", ":", "quartz:0",
		"quartz:0 0 12 L-3W * ?", "quartz:0/5 14,18,3-39,52 * ? JAN,MAR,SEP MON-FRI 2002-2010",
		"quartz:99 0 12 0W * ?", "quartz:0 0 12 ? * FRI#2,0#1",
		"quartz:0 0 12 31W 2,4 ? 2020/4", "quartz:*/0 , /5 98 NOV-FEB 6L 1/2147483647",
		"every 20m between 22:00 and 01:00 on fri-mon",
		"every 2 weeks at 02:30 on tue from 2026-01-05", "every month on 1,31,last",
		"every 3 years at 23:59:59 on 29 feb", "after:a,\"b,c\"", "every", "every at"} {
		f.Add(text, int64(1_700_000_000), uint8(0))
	}
	zones := []*time.Location{time.UTC}
	for _, name := range []string{"Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia",
		"Africa/Casablanca"} {
		zones = append(zones, zone(f, name))
	}
	f.Fuzz(func(t *testing.T, text string, from int64, pick uint8) {
		if len(text) > 1000 {
			return
		}
		in := zones[int(pick)%len(zones)]
		speedtest.Within10ms(t, text, func() {
			if s, err := schedule.ParseText(text, in); err == nil {
				s.Next(time.Unix(from, 0))
			}
		})
		s, err := schedule.ParseText(text, in)
		if err != nil {
			return
		}
		last := time.Unix(from, 0)
		for _, o := range s.Preview(last, 5, true) {
			if !o.ScheduledAt.After(last) || o.ScheduledAt.Nanosecond() != 0 {
				t.Fatalf("%q in %s: after %s comes %s", text, in, last, o.ScheduledAt)
			}
			last = o.ScheduledAt
		}
		again, err := schedule.ParseText(s.String(), in)
		if err != nil || again.String() != s.String() ||
			again.Next(time.Unix(from, 0)) != s.Next(time.Unix(from, 0)) ||
			len(again.After()) != len(s.After()) {
			t.Fatalf("%q is written as %q and read as %q: %v", text, s, again, err)
		}
	})
}

// FuzzRecurrence passes the parts of a recurrence as a mapping.
func FuzzRecurrence(f *testing.F) {
	f.Add("20m", "", "09:00 and 17:00", "mon-fri", "")
	f.Add("1 month", "02:30", "", "1,last", "2026-01-31")
	f.Add("2 years", "24:00", "", "29 feb", "0001-01-01")
	f.Fuzz(func(t *testing.T, every, at, between, on, from string) {
		r := schedule.Recurrence{Every: every, At: at, Between: between, On: on, From: from}
		var s schedule.Schedule
		var err error
		speedtest.Within10ms(t, r.String(), func() {
			s, err = schedule.Parse(schedule.Spec{Recurrence: r}, nil)
		})
		if err != nil {
			return
		}
		again, err := schedule.ParseText(s.String(), nil)
		start := time.Unix(1_700_000_000, 0)
		if err != nil || again.String() != s.String() || again.Next(start) != s.Next(start) {
			t.Fatalf("%+v is written as %q and read as %q: %v", r, s, again, err)
		}
	})
}

// A calendar is either refused with the position of each mistake, or it reports the end of each
// exclusion.
func FuzzCalendar(f *testing.F) {
	for _, event := range []string{"DTSTART:20261224",
		"DTSTART;TZID=America/New_York:20260310T220000\nDURATION:PT5H\nRRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE;COUNT=9\nEXDATE:20260312T020000Z",
		"DTSTART:20200101\nRRULE:FREQ=YEARLY;BYDAY=-1SU;UNTIL=20301231",
		"DTSTART:20200131\nRRULE:FREQ=MONTHLY;BYMONTHDAY=-1;BYMONTH=2,4\nRDATE:20260305,20260306"} {
		f.Add("2026-12-24", "sat-sun", "22:00-06:00", "* 8-17 * * *", "a.ics", ics(event),
			int64(1_700_000_000))
	}
	f.Add("12-24..01-02", "mon", "00:00-24:00", "quartz:* * * LW * ?", "a.txt",
		"2026-12-24 x\n# y\n12-25", int64(1_800_000_000))
	berlin := zone(f, "Europe/Berlin")
	f.Fuzz(func(t *testing.T, dates, weekdays, window, cron, name, data string, at int64) {
		if len(dates)+len(weekdays)+len(window)+len(cron)+len(data) > 2000 {
			return
		}
		times := schedule.TimesSpec{Dates: []string{dates}, Weekdays: []string{weekdays},
			Windows: []string{window}, Cron: []string{cron}, Files: file(name, data)}
		for _, spec := range []schedule.CalendarSpec{{Exclude: times}, {Only: times},
			{Exclude: schedule.TimesSpec{Files: times.Files}},
			{Only: schedule.TimesSpec{Dates: times.Dates, Cron: times.Cron}}} {
			var c *schedule.Calendar
			var err error
			spec.Name = "c"
			speedtest.Within10ms(t, "reading", func() { c, err = schedule.NewCalendar(spec) })
			if err != nil {
				continue
			}
			s := parse(t, "*/7 * * * *", berlin).WithCalendars(c)
			from := time.Unix(at%4_000_000_000, 0)
			for _, o := range s.Preview(from, 3, true) {
				if _, excluded := s.Excluded(o.ScheduledAt); excluded != (o.ExcludedBy != "") ||
					!o.ScheduledAt.After(from) {
					t.Fatalf("%+v after %s", o, from)
				}
				from = o.ScheduledAt
			}
		}
	})
}
