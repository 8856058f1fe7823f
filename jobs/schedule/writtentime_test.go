package schedule_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

func TestParseTime(t *testing.T) {
	now := time.Date(2026, 3, 29, 22, 30, 15, 5e8, time.UTC) // the 30th in Berlin
	for _, c := range []struct {
		text, zone string
		want       []string
		note       string
	}{
		{"2026-03-29T02:30:00Z", "Europe/Berlin", []string{"2026-03-29T02:30:00Z"}, ""},
		{"2026-03-29T02:30:00+02:00", "UTC", []string{"2026-03-29T00:30:00Z"}, ""},
		{"2026-03-29 02:30:15Z", "Europe/Berlin", []string{"2026-03-29T02:30:15Z"}, ""},
		{"2026-03-29 02:30:15 UTC", "Europe/Berlin", []string{"2026-03-29T02:30:15Z"}, ""},
		{"2026-03-28 02:30", "Europe/Berlin", []string{"2026-03-28T01:30:00Z"}, ""},
		{"2026-03-28T02:30:15", "Europe/Berlin", []string{"2026-03-28T01:30:15Z"}, ""},
		{"2026-03-29 02:30", "Europe/Berlin", []string{"2026-03-29T01:00:00Z"}, "2026-03-29 02:30:00 does not exist in Europe/Berlin: clocks went from 02:00 to 03:00; the end of the gap is used"},
		{"2026-03-29 03:00", "Europe/Berlin", []string{"2026-03-29T01:00:00Z"}, ""},
		{"2026-03-29 01:59:59", "Europe/Berlin", []string{"2026-03-29T00:59:59Z"}, ""},
		{"2026-10-25 02:30", "Europe/Berlin", []string{"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"}, "2026-10-25 02:30:00 comes twice in Europe/Berlin, at 02:30:00 CEST and at 02:30:00 CET"},
		{"2026-10-25 03:00", "Europe/Berlin", []string{"2026-10-25T02:00:00Z"}, ""},
		{"2011-12-30 12:00", "Pacific/Apia", []string{"2011-12-30T10:00:00Z"}, "2011-12-30 12:00:00 does not exist in Pacific/Apia: clocks went from 00:00 to 00:00; the end of the gap is used"},
		{"2026-04-05 01:45", "Australia/Lord_Howe", []string{"2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z"}, "2026-04-05 01:45:00 comes twice in Australia/Lord_Howe, at 01:45:00 +11 and at 01:45:00 +1030"},
		{"2026-01-31 09:00", "UTC", []string{"2026-01-31T09:00:00Z"}, ""},
		{"now", "Europe/Berlin", []string{"2026-03-29T22:30:15Z"}, ""},
		{"-2h", "Europe/Berlin", []string{"2026-03-29T20:30:15Z"}, ""},
		{"+1h30m", "UTC", []string{"2026-03-30T00:00:15Z"}, ""},
		{"-7d", "UTC", []string{"2026-03-22T22:30:15Z"}, ""},
		{"today 02:30", "UTC", []string{"2026-03-29T02:30:00Z"}, ""},
		{"Yesterday 03:30:15", "Europe/Berlin", []string{"2026-03-29T01:30:15Z"}, ""},
		{"yesterday 02:30", "Europe/Berlin", []string{"2026-03-29T01:00:00Z"}, "2026-03-29 02:30:00 does not exist in Europe/Berlin: clocks went from 02:00 to 03:00; the end of the gap is used"},
		{"tomorrow 09:00", "UTC", []string{"2026-03-30T09:00:00Z"}, ""},
	} {
		m, err := schedule.ParseTime(c.text, zone(t, c.zone), now)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		var got []string
		for _, at := range m.Times {
			got = append(got, at.Format(time.RFC3339))
		}
		expect(t, got, c.want)
		if m.Note != c.note {
			t.Errorf("%s in %s: note %q, want %q", c.text, c.zone, m.Note, c.note)
		}
	}
	for _, text := range []string{"", "2026-13-01 00:00", "02:30", "2026-01-31",
		"2026-01-31 9 o'clock", "2h", "-2", "-d", "-99999999d", "+300y", "yesterday",
		"someday 02:30", "today 25:00", "now now", "2026-03-29 02:30:15 CET"} {
		if _, err := schedule.ParseTime(text, time.UTC, now); !errors.Is(err, schedule.ErrTime) {
			t.Errorf("%q: got error %v, want ErrTime", text, err)
		}
	}
}

// In these zones, clocks change at midnight, so that a day has no midnight or has it twice.
func TestParseTimeOfANamedDayAtAChangeOfClocks(t *testing.T) {
	for _, c := range []struct{ now, text, zone, want string }{
		{"2026-09-05 00:30", "tomorrow 09:00", "America/Santiago", "2026-09-06 09:00"},
		{"2026-09-07 00:30", "yesterday 09:00", "America/Santiago", "2026-09-06 09:00"},
		{"2026-09-06 01:30", "today 09:00", "America/Santiago", "2026-09-06 09:00"},
		{"2026-03-07 00:30", "tomorrow 09:00", "America/Havana", "2026-03-08 09:00"},
		{"2026-12-31 23:30", "tomorrow 09:00", "America/Havana", "2027-01-01 09:00"},
		{"2026-03-01 00:30", "yesterday 09:00", "Europe/Berlin", "2026-02-28 09:00"},
	} {
		in := zone(t, c.zone)
		now, err := time.ParseInLocation("2006-01-02 15:04", c.now, in)
		if err != nil {
			t.Fatal(err)
		}
		m, err := schedule.ParseTime(c.text, in, now)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got := m.Times[0].In(in).Format("2006-01-02 15:04"); got != c.want {
			t.Errorf("at %s in %s, %s is %s, want %s", c.now, c.zone, c.text, got, c.want)
		}
	}
}

// Each time that parses is the local time of the zone, unless a change of the clock omits that
// time.
func FuzzParseTime(f *testing.F) {
	for _, text := range []string{"2026-03-29T02:30:00Z", "2026-03-29 02:30", "2026-10-25 02:30",
		"2011-12-30 12:00", "0001-01-01 00:00", "9999-12-31 23:59:59", "-2h", "+7d", "now", "yesterday 02:30"} {
		f.Add(text)
	}
	zones := []*time.Location{time.UTC, zone(f, "Europe/Berlin"), zone(f, "Pacific/Apia"),
		zone(f, "Australia/Lord_Howe")}
	f.Fuzz(func(t *testing.T, text string) {
		for _, in := range zones {
			m, err := schedule.ParseTime(text, in, time.Now())
			if err != nil {
				continue
			}
			if len(m.Times) == 0 || len(m.Times) > 2 || len(m.Times) == 2 && m.Note == "" {
				t.Fatalf("%q in %s: %+v", text, in, m)
			}
			shown, err := time.Parse("2006-01-02 15:04:05", text)
			if err != nil || m.Note != "" && len(m.Times) == 1 {
				continue
			}
			for _, at := range m.Times {
				const layout = "2006-01-02 15:04:05"
				if got := at.In(in).Format(layout); got != shown.Format(layout) {
					t.Fatalf("%q in %s: %s shows %s", text, in, at, got)
				}
			}
		}
	})
}

func TestPrev(t *testing.T) {
	for _, text := range []string{"* * * * * *", "*/5 * * * *", "30 2 * * *", "0 0 29 2 *",
		"every:7s", "every 20m between 09:00 and 17:00 on mon-fri", "quartz:0 0 12 L * ?",
		"at:2026-01-31T09:00:00Z"} {
		s := parse(t, text, zone(t, "Europe/Berlin"))
		scheduledTimes := s.Upcoming(time.Date(2024, 2, 1, 0, 0, 0, 0, time.UTC), 300)
		for i, scheduledAt := range scheduledTimes {
			if i == 0 {
				continue
			}
			for _, at := range []time.Time{scheduledAt, scheduledAt.Add(-time.Nanosecond),
				scheduledTimes[i-1].Add(time.Nanosecond)} {
				if got := s.Prev(at); got != scheduledTimes[i-1] {
					t.Fatalf("%s: before %s is %s, want %s", text, at, got, scheduledTimes[i-1])
				}
			}
		}
	}
	if got := parse(t, "at:2026-01-31T09:00:00Z", time.UTC).
		Prev(time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)); !got.IsZero() {
		t.Errorf("before the first: %s", got)
	}
	if got := (schedule.Schedule{}).Prev(time.Now()); !got.IsZero() {
		t.Errorf("of no schedule: %s", got)
	}
}

func TestClocksAt(t *testing.T) {
	s := parse(t, "30 2 * * *", zone(t, "Europe/Berlin"))
	for at, want := range map[string]string{
		"2026-03-28T01:30:00Z": "", "2026-03-29T01:00:00Z": "02:00 to 03:00 does not exist: run after the gap",
		"2026-10-25T00:30:00Z": "02:30 comes twice: the first time",
	} {
		scheduledAt, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.ClocksAt(scheduledAt); got != want {
			t.Errorf("%s: %q, want %q", at, got, want)
		}
	}
	if got := parse(t, "every:90s", time.UTC).ClocksAt(time.Now()); got != "" {
		t.Errorf("of an interval: %q", got)
	}
}
