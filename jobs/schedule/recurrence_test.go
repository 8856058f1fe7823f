package schedule_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// Each case has the first scheduled times after the start of 2026, a Thursday, in Berlin.
func TestRecurrence(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, berlin)
	for text, want := range map[string]string{
		"every 20m between 09:00 and 17:00 on mon-fri":          "01-01 09:00, 01-01 09:20, 01-01 09:40",
		"every 4h between 09:00 and 17:00 on mon-fri":           "01-01 09:00, 01-01 13:00, 01-01 17:00, 01-02 09:00, 01-02 13:00, 01-02 17:00, 01-05 09:00",
		"every 5h between 09:00 and 17:00":                      "01-01 09:00, 01-01 14:00, 01-02 09:00",
		"every 45m between 22:30-00:30 on fri":                  "01-02 22:30, 01-02 23:15, 01-03 00:00, 01-09 22:30",
		"every 90m between 23:00 and 02:00 on wed":              "01-01 00:30, 01-01 02:00, 01-07 23:00",
		"every 12h between 00:00 and 24:00":                     "01-01 12:00, 01-02 00:00, 01-02 12:00",
		"every 12h on sat,sun":                                  "01-03 00:00, 01-03 12:00, 01-04 00:00, 01-04 12:00, 01-10 00:00",
		"every 8h between 00:00 and 16:00 on sun":               "01-04 00:00, 01-04 08:00, 01-04 16:00, 01-11 00:00",
		"every 90 seconds between 9:00 and 9:03":                "01-01 09:00, 01-01 09:01:30, 01-01 09:03, 01-02 09:00",
		"every day at 02:30":                                    "01-01 02:30, 01-02 02:30",
		"every 3 days at 02:30":                                 "01-01 02:30, 01-04 02:30, 01-07 02:30",
		"every 3 days at 02:30 from 2026-01-03":                 "01-03 02:30, 01-06 02:30, 01-09 02:30",
		"every week at 02:30":                                   "01-05 02:30, 01-12 02:30",
		"every 2 weeks at 02:30 on tue":                         "01-13 02:30, 01-27 02:30",
		"every 2 weeks at 02:30 on tue,wed-thu from 2026-01-07": "01-07 02:30, 01-08 02:30, 01-20 02:30, 01-21 02:30, 01-22 02:30, 02-03 02:30",
		"every 1 month at 02:30":                                "01-01 02:30, 02-01 02:30, 03-01 02:30",
		"every month":                                           "02-01 00:00, 03-01 00:00",
		"every month at 18:00 on 31":                            "01-31 18:00, 02-28 18:00, 03-31 18:00, 04-30 18:00",
		"every month at 18:00 on last,1":                        "01-01 18:00, 01-31 18:00, 02-01 18:00, 02-28 18:00",
		"every month at 18:00 on 28,29,30":                      "01-28 18:00, 01-29 18:00, 01-30 18:00, 02-28 18:00, 03-28 18:00",
		"every 3 months at 02:30 on 15":                         "01-15 02:30, 04-15 02:30, 07-15 02:30, 10-15 02:30",
		"every 3 months on 15 from 2026-02-20":                  "05-15 00:00, 08-15 00:00",
		"every year at 02:30 on 24 dec":                         "12-24 02:30, 12-24 02:30",
		"every year at 02:30 on December 24":                    "12-24 02:30, 12-24 02:30",
		"every year at 02:30 on 02-29":                          "02-28 02:30, 02-28 02:30, 02-29 02:30",
		"every 2 years at 02:30 on 24 dec":                      "12-24 02:30",
	} {
		s := parse(t, text, berlin)
		var got []string
		for _, scheduledAt := range s.Upcoming(from, strings.Count(want, ",")+1) {
			got = append(got, strings.TrimSuffix(scheduledAt.In(berlin).Format("01-02 15:04:05"),
				":00"))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: got scheduled times %s, want %s", text, strings.Join(got, ", "), want)
		}
	}
}

// The count starts at the epoch and does not depend on the start of the search.
func TestMonthsCountFromEpoch(t *testing.T) {
	for text, want := range map[string]string{
		"every 7 days":           "1970-01-08",
		"every 3 days":           "1970-01-04",
		"every 2 weeks on wed":   "1970-01-14", // 1969-12-31 was in the same week as 1970-01-01
		"every 5 weeks on thu":   "1970-02-05",
		"every 5 months":         "1970-06-01",
		"every 10 years":         "1980-01-01",
		"every 400 years":        "2370-01-01",
		"every 1000 days":        "1972-09-27",
		"every 1 year on 29 feb": "1970-02-28",
	} {
		s := parse(t, text, time.UTC)
		scheduledAt := s.Next(time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC))
		if scheduledAt.Format(time.DateOnly) != want {
			t.Errorf("%s: got scheduled times %s, want %s", text, scheduledAt.Format(time.DateOnly),
				want)
		}
		if earlier := s.Next(scheduledAt.AddDate(-1, 0, 0)); earlier.After(scheduledAt) {
			t.Errorf("%s: got scheduled time %s, but %s after an earlier start", text, scheduledAt,
				earlier)
		}
	}
}

func TestRecurrenceNormalForm(t *testing.T) {
	for text, want := range map[string]string{
		"every 20 minutes on Monday-fri between 9:00 - 17:00": "every 20m between 09:00 and 17:00 on mon-fri",
		"every: 90m between 22:00 and 2:00":                   "every 1h30m between 22:00 and 02:00",
		"every 1 hours":                                       "every:1h",
		"every 60s":                                           "every:1m",
		"EVERY 60s":                                           "",
		"every days at 2:05:10":                               "every 1 day at 02:05:10",
		"every 2 week on sun,sat from 2026-01-01":             "every 2 weeks on sat,sun from 2026-01-01",
		"every week on sun,mon,fri,sat":                       "every 1 week on mon,fri-sun",
		"every week on fri-mon":                               "every 1 week on mon,fri-sun",
		"every month on last,2,1":                             "every 1 month on 1,2,last",
		"every year on dec 24":                                "every 1 year on 24 dec",
	} {
		s, err := schedule.ParseText(text, time.UTC)
		if want == "" {
			if err == nil {
				t.Errorf("%q is taken", text)
			}
			continue
		}
		if err != nil || s.String() != want {
			t.Errorf("%q: %q, %v, want %q", text, s, err, want)
			continue
		}
		if again := parse(t, want, time.UTC); again.String() != want {
			t.Errorf("%q is read as %q", want, again)
		}
	}
}

// The error names each wrong part, its value and the allowed values.
func TestRecurrenceMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"every":                                 "every: found nothing, expected a duration such as 90s",
		"every soon":                            `every: found "soon", expected a duration such as 90s`,
		"every 1 mont at 02:30":                 `every: found the unit "mont"; did you mean "month"?`,
		"every 1 fortnight":                     `every: found the unit "fortnight"; expected one of second, minute, hour, day, week, month, year`,
		"every 0 months":                        `every: found "0", expected a number from 1 on`,
		"every 1001 days":                       "every: found 1001, expected 1 to 1000 days",
		"every -5m between 09:00 and 17:00":     "every: found -5m0s, expected whole seconds, at least 1s",
		"every 1500ms on mon":                   "every: found 1.5s, expected whole seconds",
		"every 9h between 09:00 and 17:00":      "every: found 9h, expected at most the window's 8h",
		"every 30000h":                          "at most 24000h0m0s",
		"every 20m betwen 09:00 and 17:00":      `every: found "betwen" after it; did you mean "between"?`,
		"every 20m between 09:00":               `between: found "09:00", expected two times of day such as 09:00 and 17:00`,
		"every 20m between 09:00 and 25:00":     `between: found "25:00", expected a time of day such as 02:30`,
		"every 20m between 24:00 and 01:00":     `between: found "24:00", expected a time of day`,
		"every 20m between 09:00 and 09:00":     "between: found \"09:00 and 09:00\", expected a window that ends after it begins; all day is 00:00 and 24:00",
		"every 20m between":                     "between: found nothing after it",
		"every 20m on mon on tue":               "on: found it a second time, expected it once",
		"every 20m on mno":                      `on: found "mno"; did you mean "mon"?`,
		"every 20m on 1-5":                      `on: found "1", expected the day's name, such as mon: 1 is Monday in cron and Sunday in Quartz`,
		"every 20m at 02:30":                    `at: found "02:30" with every 20m: it goes with days, weeks, months or years`,
		"every 20m from 2026-01-01":             "from: found \"2026-01-01\" with every 20m: it goes with days",
		"every 2 days between 09:00 and 10:00":  "between: found \"09:00 and 10:00\" with every 2 days: it goes with a duration such as 20m",
		"every 2 days on mon":                   `on: found "mon" with every 2 days: it goes with weeks, months, years or a duration`,
		"every month on 0":                      `on: found "0", expected days of the month from 1 to 31, or last`,
		"every month on 32":                     "expected days of the month from 1 to 31, or last",
		"every month at 2:3":                    `at: found "2:3", expected a time of day such as 02:30 or 02:30:15`,
		"every month at 24:00":                  `at: found "24:00", expected a time of day`,
		"every year on 30 feb":                  `on: found the day "30" of feb, expected one that the month has`,
		"every year on 24 dez":                  `on: found "dez"; did you mean "dec"?`,
		"every year on 13-01":                   `on: found "13-01", expected a date of the year such as 24 dec`,
		"every day from 2026-02-30":             `from: found "2026-02-30", expected a date such as 2026-01-31`,
		"every 2 weeks at 25:00 on satt from x": `at: found "25:00", expected a time of day such as 02:30 or 02:30:15; from: found "x", expected a date such as 2026-01-31; on: found "satt"; did you mean "sat"?`,
	} {
		_, err := schedule.ParseText(text, time.UTC)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
	var parts schedule.PartErrors
	_, err := schedule.Parse(schedule.Spec{Recurrence: schedule.Recurrence{Every: "1 month",
		At: "x", On: "y"}}, nil)
	if !errors.As(err, &parts) || len(parts) != 2 || parts[0].Part != "at" ||
		parts[1].Part != "on" {
		t.Errorf("parts with a mistake: %v", err)
	}
}

func TestAfter(t *testing.T) {
	s := parse(t, `after: extract, "load, all",nightly/clean up`, time.UTC)
	want := []string{"extract", "load, all", "nightly/clean up"}
	if got := s.After(); strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("after %q, want %q", got, want)
	}
	if s.String() != `after:extract,"load, all",nightly/clean up` {
		t.Errorf("written as %q", s)
	}
	if again := parse(t, s.String(), time.UTC); strings.Join(again.After(),
		"|") != strings.Join(want, "|") {
		t.Errorf("read again as %q", again.After())
	}
	if scheduledAt := s.Next(time.Now()); !scheduledAt.IsZero() {
		t.Errorf("got scheduled time %s of a dependent, want none", scheduledAt)
	}
	for text, want := range map[string]string{
		"after:":       "found an empty name",
		"after: a,,b":  "found an empty name",
		"after: a,b,a": `found "a" a second time`,
		`after: "a" b`: `found "b" behind a name, expected a comma`,
	} {
		if _, err := schedule.ParseText(text, nil); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
	if _, err := schedule.Parse(schedule.Spec{After: []string{}}, nil); err == nil {
		t.Error("empty list of jobs: got success, want an error")
	}
}
