package schedule_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the tests must not depend on the machine's zone files

	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func parse(t testing.TB, text string, in *time.Location) schedule.Schedule {
	t.Helper()
	s, err := schedule.ParseText(text, in)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// upcoming returns the first scheduled times after from as RFC 3339 in the schedule's zone.
func upcoming(s schedule.Schedule, from time.Time, n int) []string {
	var texts []string
	for _, scheduledAt := range s.Upcoming(from, n) {
		texts = append(texts, scheduledAt.In(s.Zone()).Format(time.RFC3339))
	}
	return texts
}

func expect(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("scheduled times:\n got %s\nwant %s", strings.Join(got, " "),
			strings.Join(want, " "))
	}
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "found nothing",
		"   ":                       "found nothing",
		"TZ=UTC":                    "set the timezone beside it",
		"TZ=UTC * * * * *":          "set the timezone beside it",
		"CRON_TZ=Asia/Tokyo @daily": "set the timezone beside it",
		", * * * *":                 "minute: an item of the list is empty",
		"1,,2 * * * *":              "minute: an item of the list is empty",
		"* 1, * * *":                "hour: an item of the list is empty",
		"0 0 30 2 *":                "never fires",
		"0 0 31 2,4,6,9,11 *":       "never fires",
		"0 0 31 4 */2":              "never fires",
		"60 24 0 13 8":              `minute: found "60", expected a number from 0 to 59; hour: found "24"`,
		"0 0 1 foo *":               "expected a number from 1 to 12 or one of jan feb",
		"0 0 L * *":                 "day of month: L is Quartz syntax: use {quartz: …}",
		"0 0 L-3 * *":               "L-3 is Quartz syntax",
		"0 0 15W * *":               "15W is Quartz syntax",
		"0 0 * * 5L":                "weekday: 5L is Quartz syntax",
		"0 0 * * fri#2":             "fri#2 is Quartz syntax",
		"0 0 12 ? * 2-6":            "name the day, such as MON",
		"*/0 * * * *":               `found the step "0", expected a number from 1 to 60`,
		"*/90 * * * *":              `found the step "90"`,
		"*/ * * * *":                `found the step ""`,
		"1/2/3 * * * *":             `found the step "2/3"`,
		"*-5 * * * *":               `found "*"`,
		"+5 * * * *":                `found "+5"`,
		"-5 * * * *":                `found ""`,
		"1-2-3 * * * *":             `found "2-3"`,
		"30-10 * * * *":             "beyond end of range",
		"0 0 * * fri-mon":           "beyond end of range",
		"* * * *":                   "found 4 fields, expected 5",
		"5":                         "found 1 field, expected 5",
		"quartz:5":                  "found 1 field, expected 6",
		"0 0 12 1 1 ? 2026":         "found 7 fields, expected 5",
		"@reboot":                   "unknown descriptor",
		"@every":                    "unknown descriptor",
		"@every soon":               "expected a duration such as 90s",
		"@every 0s":                 "at least 1s",
		"@every -5m":                "at least 1s",
		"@every 500ms":              "at least 1s",
		"@every 1.5s":               "expected whole seconds",
		"every:0s":                  "at least 1s",
		"every:-1s":                 "at least 1s",
		"every:":                    "expected a duration such as 90s",
		"at:tomorrow":               "expected a timestamp such as 2026-01-31T09:00:00Z",
		"at:2026-01-31T09:00:00.5Z": "expected a whole second",
		"quartz:":                   "found 0 fields, expected 6",
		"quarz:0 0 12 * * ?":        `found the kind "quarz"; did you mean "quartz"?`,
		"evry 5m":                   `found the kind "evry"; did you mean "every"?`,
		"cron:0 0 * * *":            `found the kind "cron"; expected one of quartz, every, at, after`,
		"after:":                    "after: found an empty name, expected a job's",
		"75 60 24 32 13 8": `second: found "75", expected a number from 0 to 59; minute: found "60", expected a number from 0 to 59; ` +
			`hour: found "24", expected a number from 0 to 23; day of month: found "32", expected a number from 1 to 31; ` +
			`month: found "13", expected a number from 1 to 12 or one of jan feb mar apr may jun jul aug sep oct nov dec; ` +
			`weekday: found "8", expected a number from 0 to 7 or one of sun mon tue wed thu fri sat`,
		"0 0 1 jna *": `month: found "jna", expected a number from 1 to 12 or one of jan feb mar apr may jun jul aug sep oct nov dec; did you mean "jan"?`,
		"0 0 * * mno": `weekday: found "mno", expected a number from 0 to 7 or one of sun mon tue wed thu fri sat; did you mean "mon"?`,
		"@dayly":      `did you mean "@daily"?`,
	} {
		_, err := schedule.ParseText(text, time.UTC)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
}

func TestParseReturnsErrNeverFires(t *testing.T) {
	if _, err := schedule.ParseText("0 0 30 2 *", nil); !errors.Is(err, schedule.ErrNeverFires) {
		t.Errorf("30 February: %v", err)
	}
	if _, err := schedule.ParseText("quartz:0 0 12 30 2 ?", nil); !errors.Is(err,
		schedule.ErrNeverFires) {
		t.Errorf("quartz: %v", err)
	}
}

func TestSpecIsOneKind(t *testing.T) {
	if _, err := schedule.Parse(schedule.Spec{Cron: "@daily", Every: time.Minute},
		nil); err == nil {
		t.Error("schedule of two kinds: got success, want an error")
	}
	if _, err := schedule.Parse(schedule.Spec{Cron: "@daily"}, time.Local); err == nil {
		t.Error("zone Local: got success, want an error")
	}
	never, err := schedule.Parse(schedule.Spec{}, nil)
	if err != nil || !never.Next(time.Now()).IsZero() || never.String() != "" ||
		never.Zone() != time.UTC {
		t.Errorf("zero spec: %v, %v", never, err)
	}
	if !(schedule.Schedule{}).Next(time.Now()).IsZero() {
		t.Error("next time of the zero Schedule: got one, want none")
	}
}

// The expressions of each line have the same scheduled times.
func TestSameAs(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, same := range [][]string{
		{"0 0 * * 7", "0 0 * * 0", "0 0 * * sun", "0 0 * * SUN", "0 0 * * 7/2", "0 0 * * 7-7", "@weekly"},
		{"0 0 * * 5-7", "0 0 * * fri-sun", "0 0 * * 0,5,6", "0 0 * * fri-7"},
		{"0 0 * * 1-7/2", "0 0 * * 1,3,5,7", "0 0 * * mon-sun/2"},
		{"0 0 * * 0-7", "0 0 * * *", "@daily", "@midnight", "0 0 0 * * *", "0 0 ? * ?"},
		{"0 * * * *", "@hourly", "0 0-23 * * *", "0 */1 * * *", "@every 1h", "every:60m"},
		{"0 0 1 1 *", "@yearly", "@annually", "0 0 1 jan ?"},
		{"0 0 1 * *", "@monthly"},
		{"5/20 * * * *", "5-59/20 * * * *", "5,25,45 * * * *", " 5,25,45\t*  * * * "},
		{"*/60 * * * *", "0 * * * *"},
	} {
		want := upcoming(parse(t, same[0], time.UTC), from, 400)
		for _, text := range same[1:] {
			if got := upcoming(parse(t, text, time.UTC), from, 400); !slices.Equal(got, want) {
				t.Errorf("%q and %q differ: %v and %v", same[0], text, want[:4], got[:4])
			}
		}
	}
}

// The rule of crontab(5): a day must match either of two restricted day fields. If one of them
// begins with a star, it must match both.
func TestDayFields(t *testing.T) {
	from := time.Date(2026, 6, 30, 12, 0, 0, 0, time.UTC) // 1 July 2026 is a Wednesday
	for text, want := range map[string]string{
		"0 0 13 * 1":      "6 13 20 27",
		"0 0 14 * 1":      "6 13 14 20",
		"0 0 * * 1":       "6 13 20 27",
		"0 0 13 * *":      "13",
		"0 0 */2 * 1":     "13 27",
		"0 0 1-31/2 * 1":  "1 3 5 6",
		"0 0 13,27 * */1": "13 27",
		"0 0 ? * 1":       "6 13 20 27",
	} {
		var days []string
		for _, scheduledAt := range parse(t, text, time.UTC).Upcoming(from, 4) {
			if scheduledAt.Month() == time.July {
				days = append(days, scheduledAt.Format("2"))
			}
		}
		if got := strings.Join(days, " "); got != want {
			t.Errorf("%q: days %s, want %s", text, got, want)
		}
	}
}

func TestFarScheduledTimes(t *testing.T) {
	leap := parse(t, "0 12 29 2 *", time.UTC)
	from := time.Date(2096, 3, 1, 0, 0, 0, 0, time.UTC) // 2100 is no leap year
	expect(t, upcoming(leap, from, 2), []string{"2104-02-29T12:00:00Z", "2108-02-29T12:00:00Z"})

	// */7 matches only Sunday. Because it begins with a star, both fields must match.
	sunday := parse(t, "0 0 29 2 */7", zone(t, "Europe/Berlin"))
	expect(t, upcoming(sunday, time.Date(2089, 1, 1, 0, 0, 0, 0, time.UTC), 1),
		[]string{"2128-02-29T00:00:00+01:00"})

	end := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	for _, text := range []string{"* * * * * *", "@every 1s", "0 0 1 1 *"} {
		if scheduledAt := parse(t, text, time.UTC).Next(end); !scheduledAt.IsZero() {
			t.Errorf("%s: got scheduled time %s after the last year, want none", text, scheduledAt)
		}
	}
}

func TestInterval(t *testing.T) {
	s := parse(t, "every:90s", zone(t, "Asia/Kolkata"))
	for _, from := range []time.Time{time.Unix(-91, 0), time.Unix(-90, 0), time.Unix(-1, 5),
		time.Unix(0, 0),
		time.Unix(89, 999_999_999), time.Unix(90, 0), time.Unix(1_800_000_001, 1)} {
		scheduledAt := s.Next(from)
		if scheduledAt.Unix()%90 != 0 || !scheduledAt.After(from) ||
			scheduledAt.Sub(from) > 90*time.Second {
			t.Errorf("after %s: %s", from.UTC(), scheduledAt)
		}
	}
	if s.String() != "every:1m30s" || s.Next(time.Unix(0, 0)).Location() != time.UTC {
		t.Errorf("got %s with next %s, want every:1m30s in UTC", s, s.Next(time.Unix(0, 0)))
	}
}

func TestOnce(t *testing.T) {
	at := time.Date(2026, 5, 1, 9, 0, 0, 0, time.FixedZone("", 7200))
	s := parse(t, "at:2026-05-01T09:00:00+02:00", zone(t, "Europe/Berlin"))
	expect(t, upcoming(s, at.Add(-time.Nanosecond), 3), []string{"2026-05-01T09:00:00+02:00"})
	if scheduledAt := s.Next(at); !scheduledAt.IsZero() {
		t.Errorf("got another scheduled time %s, want none", scheduledAt)
	}
}

func TestStringRoundTrip(t *testing.T) {
	for _, text := range []string{" */5 * * * * ", "@daily", "@every 90s", "every:90s",
		"at:2026-05-01T09:00:00+02:00"} {
		first := parse(t, text, time.UTC)
		again := parse(t, first.String(), time.UTC)
		from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		if first.String() != again.String() ||
			!slices.Equal(first.Upcoming(from, 9), again.Upcoming(from, 9)) {
			t.Errorf("%q: %q, read again: %q", text, first, again)
		}
	}
}
