package schedule_test

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// testdata/quartz.tsv contains the results of Quartz 2.3.2. testdata/README.md says how they were
// produced.
func TestAsQuartz(t *testing.T) {
	data, err := os.ReadFile("testdata/quartz.tsv")
	if err != nil {
		t.Fatal(err)
	}
	taken, refused := 0, 0
	for line := range strings.Lines(string(data)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if fields[0] == "refused" {
			refused++
			if _, err := schedule.ParseText("quartz:"+fields[1], time.UTC); err == nil {
				t.Errorf("%q is taken, and Quartz refuses it", fields[1])
			}
			continue
		}
		taken++
		asQuartz(t, strings.Fields(fields[0]), fields[1], fields[2], fields[3])
	}
	if taken < 2000 || refused < 500 {
		t.Errorf("only %d expressions that Quartz takes, and %d that it refuses", taken, refused)
	}
}

// asQuartz compares scheduled times with a list of seconds between consecutive times.
func asQuartz(t *testing.T, gaps []string, in, from, text string) {
	t.Helper()
	at, err := strconv.ParseInt(from, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	s, err := schedule.ParseText("quartz:"+text, zone(t, in))
	if err != nil {
		t.Errorf("Quartz takes %q: %v", text, err)
		return
	}
	for _, gap := range gaps {
		scheduledAt := s.Next(time.Unix(at, 0))
		if gap == "end" {
			if !scheduledAt.IsZero() {
				t.Errorf("%q in %s: after %s comes %s, Quartz has none", text, in,
					time.Unix(at, 0).UTC(), scheduledAt)
			}
			return
		}
		seconds, err := strconv.ParseInt(gap, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if at += seconds; scheduledAt.Unix() != at {
			t.Errorf("%q in %s: got scheduled time %s, want %s as in Quartz", text, in, scheduledAt,
				time.Unix(at, 0).UTC())
			return
		}
	}
}

// The expressions are the examples of the cron trigger tutorial and of lesson 6, and those of the
// text about L, W, # and wrapping ranges. The expected times are those of Quartz from a minute
// before 2005 on.
func TestQuartzDocumentation(t *testing.T) {
	from := time.Date(2004, 12, 31, 23, 59, 0, 0, time.UTC)
	for _, c := range [][2]string{
		{"0 0 12 * * ?", "2005-01-01 12:00:00 Sat, 2005-01-02 12:00:00 Sun, 2005-01-03 12:00:00 Mon"},
		{"0 15 10 ? * *", "2005-01-01 10:15:00 Sat, 2005-01-02 10:15:00 Sun, 2005-01-03 10:15:00 Mon"},
		{"0 15 10 * * ?", "2005-01-01 10:15:00 Sat, 2005-01-02 10:15:00 Sun, 2005-01-03 10:15:00 Mon"},
		{"0 15 10 * * ? *", "2005-01-01 10:15:00 Sat, 2005-01-02 10:15:00 Sun, 2005-01-03 10:15:00 Mon"},
		{"0 15 10 * * ? 2005", "2005-01-01 10:15:00 Sat, 2005-01-02 10:15:00 Sun, 2005-01-03 10:15:00 Mon"},
		{"0 * 14 * * ?", "2005-01-01 14:00:00 Sat, 2005-01-01 14:01:00 Sat, 2005-01-01 14:02:00 Sat"},
		{"0 0/5 14 * * ?", "2005-01-01 14:00:00 Sat, 2005-01-01 14:05:00 Sat, 2005-01-01 14:10:00 Sat"},
		{"0 0/5 14,18 * * ?", "2005-01-01 14:00:00 Sat, 2005-01-01 14:05:00 Sat, 2005-01-01 14:10:00 Sat"},
		{"0 0-5 14 * * ?", "2005-01-01 14:00:00 Sat, 2005-01-01 14:01:00 Sat, 2005-01-01 14:02:00 Sat"},
		{"0 10,44 14 ? 3 WED", "2005-03-02 14:10:00 Wed, 2005-03-02 14:44:00 Wed, 2005-03-09 14:10:00 Wed"},
		{"0 15 10 ? * MON-FRI", "2005-01-03 10:15:00 Mon, 2005-01-04 10:15:00 Tue, 2005-01-05 10:15:00 Wed"},
		{"0 15 10 15 * ?", "2005-01-15 10:15:00 Sat, 2005-02-15 10:15:00 Tue, 2005-03-15 10:15:00 Tue"},
		{"0 15 10 L * ?", "2005-01-31 10:15:00 Mon, 2005-02-28 10:15:00 Mon, 2005-03-31 10:15:00 Thu"},
		{"0 15 10 L-2 * ?", "2005-01-29 10:15:00 Sat, 2005-02-26 10:15:00 Sat, 2005-03-29 10:15:00 Tue"},
		{"0 15 10 ? * 6L", "2005-01-28 10:15:00 Fri, 2005-02-25 10:15:00 Fri, 2005-03-25 10:15:00 Fri"},
		{"0 15 10 ? * 6L 2002-2005", "2005-01-28 10:15:00 Fri, 2005-02-25 10:15:00 Fri, 2005-03-25 10:15:00 Fri"},
		{"0 15 10 ? * 6#3", "2005-01-21 10:15:00 Fri, 2005-02-18 10:15:00 Fri, 2005-03-18 10:15:00 Fri"},
		{"0 0 12 1/5 * ?", "2005-01-01 12:00:00 Sat, 2005-01-06 12:00:00 Thu, 2005-01-11 12:00:00 Tue"},
		{"0 11 11 11 11 ?", "2005-11-11 11:11:00 Fri, 2006-11-11 11:11:00 Sat, 2007-11-11 11:11:00 Sun"},
		{"* * * * * ?", "2004-12-31 23:59:01 Fri, 2004-12-31 23:59:02 Fri, 2004-12-31 23:59:03 Fri"},
		{"0/5 14,18,3-39,52 * ? JAN,MAR,SEP MON-FRI 2002-2010", "2005-01-03 00:03:00 Mon, 2005-01-03 00:03:05 Mon, 2005-01-03 00:03:10 Mon"},
		{"0 0 12 ? * WED", "2005-01-05 12:00:00 Wed, 2005-01-12 12:00:00 Wed, 2005-01-19 12:00:00 Wed"},
		{"0 0/5 * * * ?", "2005-01-01 00:00:00 Sat, 2005-01-01 00:05:00 Sat, 2005-01-01 00:10:00 Sat"},
		{"10 0/5 * * * ?", "2005-01-01 00:00:10 Sat, 2005-01-01 00:05:10 Sat, 2005-01-01 00:10:10 Sat"},
		{"0 30 10-13 ? * WED,FRI", "2005-01-05 10:30:00 Wed, 2005-01-05 11:30:00 Wed, 2005-01-05 12:30:00 Wed"},
		{"0 0/30 8-9 5,20 * ?", "2005-01-05 08:00:00 Wed, 2005-01-05 08:30:00 Wed, 2005-01-05 09:00:00 Wed"},
		{"0 0/2 8-17 * * ?", "2005-01-01 08:00:00 Sat, 2005-01-01 08:02:00 Sat, 2005-01-01 08:04:00 Sat"},
		{"0 42 10 * * ?", "2005-01-01 10:42:00 Sat, 2005-01-02 10:42:00 Sun, 2005-01-03 10:42:00 Mon"},
		{"0 42 10 ? * WED", "2005-01-05 10:42:00 Wed, 2005-01-12 10:42:00 Wed, 2005-01-19 10:42:00 Wed"},
		{"0 0 9 15W * ?", "2005-01-14 09:00:00 Fri, 2005-02-15 09:00:00 Tue, 2005-03-15 09:00:00 Tue"},
		{"0 0 9 1W * ?", "2005-01-03 09:00:00 Mon, 2005-02-01 09:00:00 Tue, 2005-03-01 09:00:00 Tue"},
		{"0 0 9 LW * ?", "2005-01-31 09:00:00 Mon, 2005-02-28 09:00:00 Mon, 2005-03-31 09:00:00 Thu"},
		{"0 0 9 ? * 2#1", "2005-01-03 09:00:00 Mon, 2005-02-07 09:00:00 Mon, 2005-03-07 09:00:00 Mon"},
		{"0 0 9 ? * 4#5", "2005-03-30 09:00:00 Wed, 2005-06-29 09:00:00 Wed, 2005-08-31 09:00:00 Wed"},
		{"0 0 14-6 ? * FRI-MON", "2005-01-01 00:00:00 Sat, 2005-01-01 01:00:00 Sat, 2005-01-01 02:00:00 Sat"},
	} {
		var got []string
		for _, scheduledAt := range parse(t, "quartz:"+c[0], time.UTC).Upcoming(from, 3) {
			got = append(got, scheduledAt.Format("2006-01-02 15:04:05 Mon"))
		}
		if strings.Join(got, ", ") != c[1] {
			t.Errorf("%q: got scheduled times %s, want %s", c[0], strings.Join(got, ", "), c[1])
		}
	}
}

// docs/decisions/0012 lists these differences.
func TestUnlikeQuartz(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		// Quartz searches for a day without end.
		"0 0 9 L-30W * ?": "2026-01-01 2026-03-02 2026-05-01",
		// 1 March 2031 is a Saturday. Quartz passes over 28 February if it comes from January.
		"0 0 9 29W * ? 2031":   "2031-01-29 2031-03-28 2031-04-29",
		"0 0 9 29W 2-4 ? 2031": "2031-02-28 2031-03-28 2031-04-29",
		"0 0 9 31W * ? 2027":   "2027-01-29 2027-03-31 2027-04-30", // 1 May is a Saturday
		// Quartz stops after a hundred years.
		"0 0 9 1 1 ? 2500":   "2500-01-01",
		"0 0 9 1 1 ? 2500/9": "2500-01-01 2509-01-01 2518-01-01",
	} {
		var got []string
		for _, scheduledAt := range parse(t, "quartz:"+text, time.UTC).Upcoming(from, 3) {
			got = append(got, scheduledAt.Format(time.DateOnly))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got scheduled times %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]string{
		// Quartz accepts these, and throws or returns nothing at the first call.
		"L 0 12 * * ?":        `second: found "L", which gives no value`,
		"0 , 12 * * ?":        `minute: found ",", which gives no value`,
		"0 0 12 ? * ,":        `weekday: found ",", which gives no value`,
		"0 0 12 * * ? ,":      `year: found ",", which gives no value`,
		"0 0 12 30 2 ?":       "never fires",
		"0 0 12 * * ? 0":      "never fires",
		"0 0 12 ? * 8#1":      "expected 1#1 to 7#1",
		"0 0 12 * * ? 999999": "which gives no value",
		// Quartz searches for a day without end.
		"0 0 12 0W * ?": "expected 1W to 31W",
		// Quartz accepts these, and its results depend on the start of the search.
		"99-70/7 0 12 * * ?":           "second: found 99-70, expected 0 to 59",
		"0 0 12 5-10/2147483647 * ?":   "Quartz counts beyond its integers",
		"0 0 12 * * ? 2020/2147483647": "Quartz counts beyond its integers",
		// Quartz accepts digits of other scripts and converts to upper case.
		"0 */٥ 12 * * ?": "expected ASCII only",
		"0 0 12 ? * ſUN": "expected ASCII only",
	} {
		_, err := schedule.ParseText("quartz:"+text, time.UTC)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
}

// The error names each wrong field, its value and the allowed values.
func TestQuartzRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"60 0 12 * * ?":          "second: found 60, expected 0 to 59",
		"0 60 24 32 13 8":        "minute: found 60, expected 0 to 59; hour: found 24, expected 0 to 23; day of month: found 32, expected 1 to 31; month: found 13, expected 1 to 12, JAN to DEC; weekday: found 8, expected 1 to 7, SUN to SAT",
		"0 0 12 0 * ?":           "day of month: found 0, expected 1 to 31",
		"0 0 12 ? * 0":           "weekday: found 0, expected 1 to 7, SUN to SAT",
		"0 0 12 ? FEV MON":       `month: found the name "FEV"; did you mean "feb"?`,
		"0 0 12 ? * MNO":         `weekday: found the name "MNO"; did you mean "mon"?`,
		"0 0 12 ? * MO":          `weekday: found the name "MO"; did you mean "mon"?`,
		"0 0 12 ? * MON-":        `weekday: found "MON-", expected a range of names such as sun-sat`,
		"0 0 ? * * ?":            `hour: found "?", expected 0 to 23; ? is for the day of month or the weekday`,
		"0 0 12 ?15 * ?":         `day of month: found "?15", expected ? by itself`,
		"0 0 12 * * *":           "found ? in neither of day of month and weekday, expected it in one of them",
		"0 0 12 ? * ?":           "found ? in both of day of month and weekday",
		"0 0 12 L,15 * ?":        `day of month: found "L,15", expected L by itself, not in a list`,
		"0 0 12 ? * 6L,2":        `weekday: found "6L,2", expected L by itself`,
		"0 0 12 ? * 1#2,3#4":     `weekday: found "1#2,3#4", expected one # at most`,
		"0 0 12 ? * 6#6":         "weekday: found #6, expected #1 to #5",
		"0 0 12 6#3 * ?":         "# is for weekdays",
		"0 0 12 6L * ?":          "1L to 7L are for weekdays",
		"0 0 12 ? * 15W":         "1W to 31W are for days of the month",
		"0 0 12 32W * ?":         "1W to 31W are for days of the month",
		"0 0 12 L-31 * ?":        `day of month: found "L-31", expected at most 30 days before the last`,
		"0 0 12 L- * ?":          "such as L-3",
		"0 */60 12 * * ?":        "minute: found the step 60, expected a number from 1 to 59",
		"0 0/60 12 * * ?":        `minute: found the step "60", expected a number from 1 to 59`,
		"0 */x 12 * * ?":         `minute: found the step "X", expected a number from 1 to 59`,
		"0 5- 12 * * ?":          `minute: found the range "5-", expected one such as 2-5`,
		"0 5-9/ 12 * * ?":        `minute: found the step "", expected a number`,
		"0 noon 12 * * ?":        `minute: found "NOON", expected 0 to 59`,
		"0 +5 12 * * ?":          `minute: found "+5", expected 0 to 59`,
		"0 0 12 * * ? 2030-2020": "year: found the years 2030-2020, expected a range that rises",
		"0 0 12 * *":             "found 5 fields, expected 6 (second, minute, hour, day of month, month, weekday) or 7 (year last)",
	} {
		_, err := schedule.ParseText("quartz:"+text, time.UTC)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
	if _, err := schedule.Parse(schedule.Spec{Quartz: "0 0 12 31 4,6 ?"}, nil); !errors.Is(err,
		schedule.ErrNeverFires) {
		t.Errorf("31 April: %v", err)
	}
}

// A YAML block leaves a line break at the end of the value. Quartz ignores it at the end of any
// field.
func TestQuartzInABlock(t *testing.T) {
	for _, text := range []string{"0 0 12 ? * THU#1\n", "0\n 0\r\n 12 1W\n * ?",
		"0 0 12 L-30\n * ?\n"} {
		s, err := schedule.Parse(schedule.Spec{Quartz: text}, nil)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		expect(t, upcoming(s, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), 1),
			[]string{"2026-01-01T12:00:00Z"})
	}
}

// Quartz writes 0/15 for */15. Its interval stays constant at changes of the clock.
func TestQuartzClockChanges(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	back := time.Date(2026, 10, 25, 0, 20, 0, 0, time.UTC)
	expect(t, upcoming(parse(t, "quartz:0 0/30 * * * ?", berlin), back, 3),
		[]string{"2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+01:00",
			"2026-10-25T02:30:00+01:00"})
	for _, text := range []string{"0 0/30 1-3 * * ?", "0 */30 1-3 * * ?", "0 /30 1-3 * * ?",
		"0 0,30 0/1 * * ?"} {
		expect(t, upcoming(parse(t, "quartz:"+text, berlin), back, 2),
			[]string{"2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+01:00"})
	}
	expect(t, upcoming(parse(t, "quartz:0 0-30/30 1-3 * * ?", berlin), back, 2),
		[]string{"2026-10-25T02:30:00+02:00", "2026-10-25T03:00:00+01:00"})
	expect(t, upcoming(parse(t, "quartz:0 30 2 * * ?", berlin), back, 2),
		[]string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"})
	forward := time.Date(2026, 3, 29, 1, 20, 0, 0, berlin)
	expect(t, upcoming(parse(t, "quartz:0 0/30 * * * ?", berlin), forward, 2),
		[]string{"2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00"})
	expect(t, upcoming(parse(t, "quartz:0 30 2 ? * 1L", berlin), forward, 2),
		[]string{"2026-03-29T03:00:00+02:00", "2026-04-26T02:30:00+02:00"})
}
