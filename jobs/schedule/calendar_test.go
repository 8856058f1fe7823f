package schedule_test

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

func calendar(t testing.TB, spec schedule.CalendarSpec) *schedule.Calendar {
	t.Helper()
	spec.Name = cmp.Or(spec.Name, "c")
	c, err := schedule.NewCalendar(spec)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func file(name, data string) []schedule.HolidayFile {
	return []schedule.HolidayFile{{Name: name, Data: []byte(data)}}
}

// Each case has the scheduled times of a schedule in Berlin from a given time on, with one kind of
// exclusion.
func TestCalendars(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	for _, c := range []struct {
		name, text, from string // from is local time in Berlin
		spec             schedule.CalendarSpec
		want             string
	}{
		{"a date", "0 9 * * *", "2026-12-23 12:00", schedule.CalendarSpec{Exclude: schedule.TimesSpec{Dates: []string{"2026-12-24"}}},
			"12-25 09:00, 12-26 09:00"},
		{"a range", "0 9 * * *", "2026-12-23 12:00", schedule.CalendarSpec{Exclude: schedule.TimesSpec{Dates: []string{"2026-12-24..2027-01-02"}}},
			"01-03 09:00, 01-04 09:00"},
		{"ranges that touch", "0 9 * * *", "2026-12-23 12:00",
			schedule.CalendarSpec{Exclude: schedule.TimesSpec{
				Dates: []string{"2026-12-30..2026-12-31", "2026-12-24", "2026-12-25..2026-12-29",
					"2026-12-26"}}},
			"01-01 09:00, 01-02 09:00"},
		{"a date of each year", "0 9 24 12 *", "2026-01-01 12:00", schedule.CalendarSpec{Exclude: schedule.TimesSpec{Dates: []string{"12-25"}}}, "12-24 09:00"},
		{"each year, beyond its end", "0 9 * * *", "2026-12-27 12:00", schedule.CalendarSpec{Exclude: schedule.TimesSpec{Dates: []string{"12-28..01-02"}}},
			"01-03 09:00, 01-04 09:00"},
		{"weekdays", "0 9 * * *", "2026-01-02 12:00", schedule.CalendarSpec{Exclude: schedule.TimesSpec{Weekdays: []string{"sat-sun", "tue"}}},
			"01-05 09:00, 01-07 09:00, 01-08 09:00"},
		{"only weekdays", "0 9 * * *", "2026-01-02 12:00", schedule.CalendarSpec{Only: schedule.TimesSpec{Weekdays: []string{"mon-fri"}}},
			"01-05 09:00, 01-06 09:00"},
		{"a window", "0 */3 * * *", "2026-01-01 16:00", schedule.CalendarSpec{Exclude: schedule.TimesSpec{Windows: []string{"21:00-06:00"}}},
			"01-01 18:00, 01-02 06:00, 01-02 09:00"},
		{"only windows", "0 */3 * * *", "2026-01-01 16:00", schedule.CalendarSpec{Only: schedule.TimesSpec{Windows: []string{"21:00-06:00", "12:00-13:00"}}},
			"01-01 21:00, 01-02 00:00, 01-02 03:00, 01-02 12:00"},
		{"cron, whole minutes", "*/20 * * * * *", "2026-01-01 11:58", schedule.CalendarSpec{Exclude: schedule.TimesSpec{Cron: []string{"59 11 * * *"}}},
			"01-01 11:58:20, 01-01 11:58:40, 01-01 12:00"},
		{"cron, seconds", "*/20 * * * * *", "2026-01-01 11:58", schedule.CalendarSpec{Exclude: schedule.TimesSpec{Cron: []string{"0 59 11 * * *"}}},
			"01-01 11:58:20, 01-01 11:58:40, 01-01 11:59:20"},
		{"cron, hours in a row", "*/30 * * * *", "2026-01-01 07:40", schedule.CalendarSpec{Exclude: schedule.TimesSpec{Cron: []string{"* 8-17 * * *"}}},
			"01-01 18:00, 01-01 18:30"},
		{"only cron", "*/5 * * * *", "2026-01-01 07:40", schedule.CalendarSpec{Only: schedule.TimesSpec{Cron: []string{"10-20 * * * sun", "0 23 * * *"}}},
			"01-01 23:00, 01-02 23:00, 01-03 23:00, 01-04 00:10, 01-04 00:15, 01-04 00:20, 01-04 01:10"},
		{"only Quartz", "0 9 * * *", "2026-01-01 07:40", schedule.CalendarSpec{Only: schedule.TimesSpec{Cron: []string{"quartz:* * * LW * ?"}}},
			"01-30 09:00, 02-27 09:00"},
		{"only dates", "0 9 * * *", "2026-01-01 07:40", schedule.CalendarSpec{Only: schedule.TimesSpec{Dates: []string{"2030-05-01", "2026-07-04..2026-07-05"}}},
			"07-04 09:00, 07-05 09:00, 05-01 09:00"},
		{"only events of a later millennium", "0 9 * * *", "0001-01-02 00:00",
			schedule.CalendarSpec{Only: schedule.TimesSpec{Weekdays: []string{"mon-fri"},
				Files: file("a.ics", ics("DTSTART:20260105T080000\nDTEND:20260105T180000\n"+
					"RRULE:FREQ=WEEKLY;BYDAY=MO,TU\nRDATE:20260102T080000,20260103T080000"))}},
			"01-02 09:00, 01-05 09:00, 01-06 09:00, 01-12 09:00"},
		{"only, of all kinds", "0 * * * *", "2026-07-01 07:40",
			schedule.CalendarSpec{Only: schedule.TimesSpec{
				Dates: []string{"2026-07-04..2026-07-06"}, Weekdays: []string{"sun", "mon"},
				Windows: []string{"09:00-10:30"}}},
			"07-05 09:00, 07-05 10:00, 07-06 09:00, 07-06 10:00"},
		{"only and exclude", "0 9 * * *", "2026-07-01 07:40",
			schedule.CalendarSpec{Only: schedule.TimesSpec{Weekdays: []string{"sun"}},
				Exclude: schedule.TimesSpec{Dates: []string{"07-05"}}},
			"07-12 09:00, 07-19 09:00"},
		{"its own zone", "0 0 * * *", "2026-07-01 07:40",
			schedule.CalendarSpec{Zone: zone(t, "America/New_York"),
				Exclude: schedule.TimesSpec{Dates: []string{"2026-07-01"}}},
			"07-03 00:00, 07-04 00:00"},
		{"an interval too", "every:12h", "2026-07-01 07:40", schedule.CalendarSpec{Exclude: schedule.TimesSpec{Dates: []string{"2026-07-02"}}},
			"07-01 14:00, 07-03 02:00"},
		{"once", "at:2026-07-02T10:00:00Z", "2026-07-01 07:40", schedule.CalendarSpec{Exclude: schedule.TimesSpec{Dates: []string{"2026-07-02"}}}, ""},
		{"a list in a file", "0 9 * * *", "2026-12-23 12:00",
			schedule.CalendarSpec{Exclude: schedule.TimesSpec{
				Files: file("a.txt", "\ufeff# ours\n\n2026-12-24 Christmas "+
					"Eve\r\n12-25..12-26\tChristmas # each year\n")}},
			"12-27 09:00, 12-28 09:00"},
		{"clocks go back within a window", "*/30 * * * *", "2026-10-25 01:20", schedule.CalendarSpec{Exclude: schedule.TimesSpec{Windows: []string{"02:00-02:20"}}},
			"10-25 01:30, 10-25 02:30, 10-25 02:30, 10-25 03:00"},
		{"clocks go forward within a window", "*/30 * * * *", "2026-03-29 01:20", schedule.CalendarSpec{Exclude: schedule.TimesSpec{Windows: []string{"01:00-03:00"}}},
			"03-29 03:00, 03-29 03:30"},
		{"clocks go forward over a window", "*/30 * * * *", "2026-03-29 01:20", schedule.CalendarSpec{Exclude: schedule.TimesSpec{Windows: []string{"02:00-03:10"}}},
			"03-29 01:30, 03-29 03:30"},
	} {
		t.Run(c.name, func(t *testing.T) {
			from, err := time.ParseInLocation("2006-01-02 15:04", c.from, berlin)
			if err != nil {
				t.Fatal(err)
			}
			s := parse(t, c.text, berlin).WithCalendars(calendar(t, c.spec))
			var got []string
			for _, scheduledAt := range s.Upcoming(from, strings.Count(c.want, ",")+1) {
				got = append(got, strings.TrimSuffix(scheduledAt.In(berlin).
					Format("01-02 15:04:05"), ":00"))
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("got scheduled times %s, want %s", strings.Join(got, ", "), c.want)
			}
		})
	}
}

func TestExcluded(t *testing.T) {
	holidays := calendar(t, schedule.CalendarSpec{Name: "holidays",
		Exclude: schedule.TimesSpec{Dates: []string{"2026-12-24", "2026-12-27"}}})
	weekends := calendar(t, schedule.CalendarSpec{Name: "weekends",
		Exclude: schedule.TimesSpec{Weekdays: []string{"sat-sun"}}})
	s := parse(t, "0 9 * * *", time.UTC).WithCalendars(holidays, weekends)
	for at, want := range map[string]string{
		"2026-12-24T09:00:00Z":      "holidays",
		"2026-12-24T10:00:00+01:00": "holidays",
		"2026-12-25T09:00:00Z":      "",
		"2026-12-26T09:00:00Z":      "weekends",
		"2026-12-27T09:00:00Z":      "holidays", // the first calendar in the job's list
		"2026-12-24T09:30:00Z":      "",         // no scheduled time of the schedule
		"2026-12-24T09:00:00.5Z":    "",
	} {
		when, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := s.Excluded(when); got != want || ok != (want != "") {
			t.Errorf("%s: excluded by %q, %v, want %q", at, got, ok, want)
		}
	}
	if name, ok := (schedule.Schedule{}).WithCalendars(holidays).Excluded(time.Now()); ok {
		t.Errorf("a job that is only triggered is excluded by %s", name)
	}
}

// The test compares the scheduled times with those of the schedule without calendars, checking each
// against the calendars alone. None is missing and none is left over.
func TestExclusionsAreSkipped(t *testing.T) {
	event := "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;TZID=America/New_York:20260110T220000\n" +
		"DTEND;TZID=America/New_York:20260111T030000\nRRULE:FREQ=WEEKLY;BYDAY=SA,WE\n" +
		"END:VEVENT\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20260101\nDTEND;VALUE=DATE:20260104\n" +
		"RRULE:FREQ=MONTHLY;BYMONTHDAY=10,-1\nEND:VEVENT\nEND:VCALENDAR\n"
	zones := []string{"UTC", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca",
		"Antarctica/Troll"}
	times := func(t *rapid.T, part string) schedule.TimesSpec {
		pick := func(name string, items ...string) []string {
			return rapid.SliceOfNDistinct(rapid.SampledFrom(items), 0, 2, rapid.ID).
				Draw(t, part+" "+name)
		}
		spec := schedule.TimesSpec{
			Dates: pick("dates", "2026-03-20..2026-04-02", "10-24..11-03", "2026-05-01",
				"12-28..01-03"),
			Weekdays: pick("weekdays", "sat-sun", "wed", "fri-mon"),
			Windows:  pick("windows", "22:00-03:00", "02:10-02:50", "09:00-17:00"),
			Cron: pick("cron", "* 8-17 * * mon-fri", "0 0 */2 * * *", "*/7 * * 3,10 *",
				"quartz:* * 2 ? * 1L"),
		}
		if rapid.IntRange(0, 2).Draw(t, part+" file") == 0 {
			spec.Files = file("a.ics", event)
		}
		return spec
	}
	rapid.Check(t, func(t *rapid.T) {
		in, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		spec := schedule.CalendarSpec{Name: "c", Exclude: times(t, "exclude"),
			Only: times(t, "only")}
		c, err := schedule.NewCalendar(spec)
		if err != nil {
			t.Skip(err)
		}
		text := rapid.SampledFrom([]string{"*/13 * * * *", "0 */3 * * *", "every:7m",
			"every 11m between 01:00 and 23:00", "30 2 * * *"}).Draw(t, "schedule")
		plain, err := schedule.ParseText(text, in)
		if err != nil {
			t.Fatal(err)
		}
		s := plain.WithCalendars(c)
		from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).
			Add(time.Duration(rapid.IntRange(-30*24, 365*24).Draw(t, "hours")) * time.Hour)
		want := from
		for range 300 {
			want = plain.Next(want)
			if _, excluded := s.Excluded(want); excluded {
				continue
			}
			if from = s.Next(from); from != want {
				t.Fatalf("%s: got scheduled times %s, want %s", text, from.In(in), want.In(in))
			}
		}
	})
}

// The error names each wrong item, its value and the allowed values.
func TestCalendarMistakes(t *testing.T) {
	_, err := schedule.NewCalendar(schedule.CalendarSpec{
		Name: "c",
		Exclude: schedule.TimesSpec{
			Dates: []string{"2026-12-24", "2026-13-01", "13-01", "2026-12-24..2026-12-23",
				"12-24..x", "2026-12-24..12-26"},
			Weekdays: []string{"sat", "sonday", "6"},
			Windows:  []string{"22:00-06:00", "22:00", "25:00-06:00", "06:00-06:00"},
			Cron: []string{"* * * * *", "* * * *", "every:5m", "@every 5m", "0 0 30 2 *",
				"quartz:0 0 12 * *"},
			Files: []schedule.HolidayFile{{Name: "a.txt",
				Data: []byte("2026-12-24\n# no\n24.12.2026 Christmas\n")}, {Name: "b.txt",
				Data: []byte("# none\n")}},
		},
		Only: schedule.TimesSpec{Weekdays: []string{"mno"}},
	})
	want := []string{
		`exclude.dates[1]: found "2026-13-01", expected a date such as 2026-12-24, one of each year such as 12-24, or a range such as 2026-12-24..2027-01-02`,
		`exclude.dates[2]: found "13-01", expected a date such as 2026-12-24`,
		`exclude.dates[3]: found "2026-12-24..2026-12-23", expected a range that ends on its first day or later`,
		`exclude.dates[4]: found "x", expected a date of the year such as 12-24`,
		`exclude.dates[5]: found "12-26", expected a date such as 2026-01-31`,
		`a.txt:3: exclude.files[0]: found "24.12.2026", expected a date such as 2026-12-24`,
		`b.txt:1: exclude.files[1]: found no dates, expected at least one`,
		`exclude.weekdays[1]: found "sonday"; did you mean "sunday"?`,
		`exclude.weekdays[2]: found "6", expected the day's name, such as mon`,
		`exclude.windows[1]: found "22:00", expected two times of day such as 09:00 and 17:00`,
		`exclude.windows[2]: found "25:00", expected a time of day`,
		`exclude.windows[3]: found "06:00-06:00", expected a window that ends after it begins`,
		`exclude.cron[1]: found "* * * *": found 4 fields`,
		`exclude.cron[2]: found "every:5m": expected cron or quartz: and an expression`,
		`exclude.cron[3]: found "@every 5m", expected an expression with fields`,
		`exclude.cron[4]: found "0 0 30 2 *": never fires`,
		`exclude.cron[5]: found "quartz:0 0 12 * *": found 5 fields`,
		`only.weekdays[0]: found "mno"; did you mean "mon"?`,
	}
	if err == nil {
		t.Fatal("invalid calendar: got success, want an error")
	}
	got := strings.Split(err.Error(), "\n")
	if len(got) != len(want) {
		t.Errorf("%d mistakes, want %d:\n%s", len(got), len(want), err)
	}
	for i := range min(len(got), len(want)) {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("found    %s\nwant %s", got[i], want[i])
		}
	}
	var mistake *schedule.CalendarMistake
	if !errors.As(err, &mistake) || mistake.Key != "exclude.dates[1]" {
		t.Errorf("the first mistake is %+v", mistake)
	}
}

func TestCalendarsThatExcludeEverything(t *testing.T) {
	for name, spec := range map[string]schedule.CalendarSpec{
		"found neither exclude nor only":   {Name: "c"},
		"name: found nothing":              {Only: schedule.TimesSpec{Weekdays: []string{"sat"}}},
		"found every day of the week":      {Exclude: schedule.TimesSpec{Weekdays: []string{"mon-fri", "sat", "sun"}}},
		"found windows that leave nothing": {Exclude: schedule.TimesSpec{Windows: []string{"22:00-10:00", "08:00-22:00"}}},
		"expected at most 1048576":         {Only: schedule.TimesSpec{Files: file("a.txt", strings.Repeat("#", 1<<20+1))}},
	} {
		if _, err := schedule.NewCalendar(spec); err == nil ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want an error with %q", err, name)
		}
	}
	// Some combinations exclude everything although no single part does. The search for a next time
	// is then bounded.
	night := calendar(t, schedule.CalendarSpec{
		Exclude: schedule.TimesSpec{Windows: []string{"22:00-06:00"}}})
	if scheduledAt := parse(t, "0 3 * * *", zone(t, "Europe/Berlin")).WithCalendars(night).
		Next(time.Unix(1.8e9, 0)); !scheduledAt.IsZero() {
		t.Errorf("got scheduled time %s within the window, want none", scheduledAt)
	}
}

// The fingerprint depends on everything that changes scheduled times, and on nothing else.
func TestFingerprint(t *testing.T) {
	dates := func(texts ...string) *schedule.Calendar {
		return calendar(t, schedule.CalendarSpec{Name: "c",
			Exclude: schedule.TimesSpec{Dates: texts}})
	}
	ics := func(lines string) *schedule.Calendar {
		text := "BEGIN:VCALENDAR\nBEGIN:VEVENT\n" + lines + "END:VEVENT\nEND:VCALENDAR\n"
		return calendar(t, schedule.CalendarSpec{Name: "c",
			Exclude: schedule.TimesSpec{Files: file("a.ics", text)}})
	}
	s := parse(t, "0 9 * * *", time.UTC)
	if s.Fingerprint() != "0 9 * * *" {
		t.Errorf("got %q", s.Fingerprint())
	}
	same := [][2]schedule.Schedule{
		{s.WithCalendars(dates("2026-12-24", "2026-12-25")), s.WithCalendars(dates("2026-12-25..2026-12-25", "2026-12-24"))},
		{s.WithCalendars(dates("2026-12-24")), s.WithCalendars(ics("DTSTART:20261224\nDTSTAMP:20260101T000000Z\nUID:1\n"))},
		{s.WithClockChanges(schedule.ClockChanges{}), s},
		{s.WithCalendars(dates("12-24")).WithCalendars(), s},
		{s.WithJitter(time.Minute).WithJitter(0), s},
	}
	for i, pair := range same {
		if pair[0].Fingerprint() != pair[1].Fingerprint() {
			t.Errorf("%d: %q and %q differ", i, pair[0].Fingerprint(), pair[1].Fingerprint())
		}
	}
	yearly := "DTSTART:20261224\nRRULE:FREQ=YEARLY"
	all := []string{
		s.Fingerprint(), s.WithClockChanges(schedule.ClockChanges{Skip: true}).Fingerprint(),
		s.WithClockChanges(schedule.ClockChanges{Both: true}).Fingerprint(),
		s.WithJitter(time.Minute).Fingerprint(), s.WithJitter(time.Hour).Fingerprint(),
		s.WithCalendars(dates("2026-12-24")).Fingerprint(),
		s.WithCalendars(dates("2026-12-25")).Fingerprint(),
		s.WithCalendars(dates("12-24")).Fingerprint(),
		s.WithCalendars(dates("12-24"), dates("12-25")).Fingerprint(),
		s.WithCalendars(calendar(t,
			schedule.CalendarSpec{Name: "other",
				Exclude: schedule.TimesSpec{Dates: []string{"12-24"}}})).Fingerprint(),
		s.WithCalendars(calendar(t,
			schedule.CalendarSpec{Name: "c",
				Only: schedule.TimesSpec{Dates: []string{"12-24"}}})).Fingerprint(),
		s.WithCalendars(calendar(t,
			schedule.CalendarSpec{Name: "c", Zone: time.UTC,
				Exclude: schedule.TimesSpec{Dates: []string{"12-24"}}})).Fingerprint(),
		s.WithCalendars(calendar(t,
			schedule.CalendarSpec{Name: "c",
				Exclude: schedule.TimesSpec{Weekdays: []string{"sat"}}})).Fingerprint(),
		s.WithCalendars(calendar(t,
			schedule.CalendarSpec{Name: "c",
				Exclude: schedule.TimesSpec{Windows: []string{"09:00-10:00"}}})).Fingerprint(),
		s.WithCalendars(calendar(t,
			schedule.CalendarSpec{Name: "c",
				Exclude: schedule.TimesSpec{Cron: []string{"* 9 * * *"}}})).Fingerprint(),
		s.WithCalendars(calendar(t,
			schedule.CalendarSpec{Name: "c",
				Exclude: schedule.TimesSpec{Cron: []string{"0 * 9 * * *"}}})).Fingerprint(),
		s.WithCalendars(ics(yearly + "\n")).Fingerprint(),
		s.WithCalendars(ics(yearly + ";COUNT=2\n")).Fingerprint(),
		s.WithCalendars(ics(yearly + ";COUNT=3\n")).Fingerprint(),
		s.WithCalendars(ics(yearly + ";BYMONTH=1\n")).Fingerprint(),
		s.WithCalendars(ics(yearly + "\nEXDATE:20271224\n")).Fingerprint(),
		s.WithCalendars(ics(yearly + "\nRDATE:20271224\n")).Fingerprint(),
		s.WithCalendars(ics("DTSTART:20261224T090000\nDURATION:PT1H\n")).Fingerprint(),
		s.WithCalendars(ics("DTSTART:20261224T090000Z\nDURATION:PT1H\n")).Fingerprint(),
		s.WithCalendars(ics("DTSTART:20261224T090000\nDURATION:PT2H\n")).Fingerprint(),
	}
	slices.Sort(all)
	if unique := slices.Compact(slices.Clone(all)); len(unique) != len(all) {
		t.Errorf("%d fingerprints are not unique:\n%s", len(all), strings.Join(all, "\n"))
	}
}

// A calendar whose expression matches single minutes excludes each of them apart.
func TestManyExclusionsInARow(t *testing.T) {
	from := time.Date(2026, 3, 31, 23, 59, 30, 0, time.UTC)
	for _, test := range []struct{ text, excluded, want string }{
		{"0 * * * *", "0 * * apr-sep *", "2026-10-01T00:00:00Z"},
		{"0 * * * *", "0 * * jan-nov *", "2026-12-01T00:00:00Z"},
		{"* * * * *", "0-58 * * apr-sep *", "2026-04-01T00:59:00Z"},
		{"*/2 * * * *", "*/2 * * apr-sep *", "2026-10-01T00:00:00Z"},
	} {
		c := calendar(t, schedule.CalendarSpec{
			Exclude: schedule.TimesSpec{Cron: []string{test.excluded}}})
		s := parse(t, test.text, time.UTC).WithCalendars(c)
		if got := s.Next(from).Format(time.RFC3339); got != test.want {
			t.Errorf("%s without %s: got %s, want %s", test.text, test.excluded, got, test.want)
		}
	}
}
