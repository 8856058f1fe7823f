package schedule

import (
	"strings"
	"testing"
	"time"
)

func TestDescribe(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"*/5 * * * *":            "every 5 minutes, Berlin time",
		"* * * * *":              "every minute, Berlin time",
		"*/7 * * * *":            "every 7 minutes of each hour, Berlin time",
		"2/5 * * * *":            "every 5 minutes from minute 2 on, Berlin time",
		"0 * * * *":              "every hour, Berlin time",
		"15 * * * *":             "every hour at :15, Berlin time",
		"0,20 * * * *":           "every hour at :00 and :20, Berlin time",
		"30 2 * * *":             "every day at 02:30, Berlin time",
		"30 2,14 * * *":          "every day at 02:30 and 14:30, Berlin time",
		"0 */2 * * *":            "every 2 hours, Berlin time",
		"5 1-23/2 * * *":         "every 2 hours from 01:05, Berlin time",
		"0 */5 * * *":            "every day at 00:00, 05:00, 10:00, 15:00 and 20:00, Berlin time",
		"0 9-17 * * *":           "every hour from 09:00 to 17:00, Berlin time",
		"*/10 9-17 * * 1-5":      "every 10 minutes between 09:00 and 17:59 on weekdays, Berlin time",
		"*/10 2,4 * * *":         "every 10 minutes in the hours 2 and 4, Berlin time",
		"0 3 * * 6":              "at 03:00 on Saturdays, Berlin time",
		"0 3 * * 0,6":            "at 03:00 on Saturdays and Sundays, Berlin time",
		"0 3 * * 1,3":            "at 03:00 on Mondays and Wednesdays, Berlin time",
		"0 3 * * 2-6":            "at 03:00 on Tuesday to Saturday, Berlin time",
		"0 0 1 * *":              "at 00:00 on the 1st, Berlin time",
		"0 0 1,15,22 * *":        "at 00:00 on the 1st, 15th and 22nd, Berlin time",
		"0 0 1-7 * *":            "at 00:00 from the 1st to the 7th, Berlin time",
		"0 0 */2 * *":            "at 00:00 on every 2 days of the month, from the 1st, Berlin time",
		"0 0 1 1,7 *":            "at 00:00 on the 1st in January and July, Berlin time",
		"0 0 * 6-8 *":            "at 00:00 from June to August, Berlin time",
		"0 0 13 * 5":             "at 00:00 on the 13th, and on Fridays, Berlin time",
		"0 0 */2 * 1":            "0 0 */2 * 1, Berlin time",
		"7,13,19 1-23/3,2 * * *": "7,13,19 1-23/3,2 * * *, Berlin time",
		"*/10 * * * * *":         "every 10 seconds, Berlin time",
		"15 * * * * *":           "every minute at second 15, Berlin time",
		"15 30 2 * * *":          "every day at 02:30:15, Berlin time",
		"* * 9-10 * * *":         "every second between 09:00 and 10:59, Berlin time",
		"@daily":                 "every day at 00:00, Berlin time",
		"@hourly":                "every hour, Berlin time",
		"@weekly":                "at 00:00 on Sundays, Berlin time",
		"@yearly":                "at 00:00 on the 1st in January, Berlin time",
		"@every 90s":             "every 90 seconds",
		"every:5m":               "every 5 minutes",
		"every:1h":               "every hour",
		"every:36h":              "every 36 hours",
		"every:1h30m":            "every 90 minutes",
		"every:1h1m1s":           "every 1 hour 1 minute 1 second",
		"every:24h":              "every day",

		"quartz:0 0/5 * * * ?":                         "every 5 minutes, Berlin time",
		"quartz:0 0 12 ? * MON-FRI":                    "at 12:00 on weekdays, Berlin time",
		"quartz:0 0 12 L * ?":                          "at 12:00 on the last day of the month, Berlin time",
		"quartz:0 0 12 L-3 * ?":                        "at 12:00 3 days before the last day of the month, Berlin time",
		"quartz:0 0 12 LW * ?":                         "at 12:00 on the workday nearest to the last day of the month, Berlin time",
		"quartz:0 0 12 15W * ?":                        "at 12:00 on the workday nearest to the 15th, Berlin time",
		"quartz:0 0 12 ? * 6L":                         "at 12:00 on the last Friday of the month, Berlin time",
		"quartz:0 0 12 ? * 6#3":                        "at 12:00 on the 3rd Friday of the month, Berlin time",
		"quartz:0 15 10 * * ? 2030":                    "at 10:15 in 2030, Berlin time",
		"quartz:0 15 10 * * ?":                         "every day at 10:15, Berlin time",
		"quartz:0 15 10 ? * *":                         "every day at 10:15, Berlin time",
		"quartz:0 15 10 1 1 ? 2030-2039":               "quartz:0 15 10 1 1 ? 2030-2039, Berlin time",
		"every 20m between 09:00 and 17:00 on mon-fri": "every 20 minutes between 09:00 and 17:00 on weekdays, Berlin time",
		"every 2 weeks at 02:30 on mon":                "every 2 weeks at 02:30 on Mondays, Berlin time",
		"every 1 month at 02:30":                       "every month at 02:30, Berlin time",
		"every 3 months on 1,15,last":                  "every 3 months on the 1st, 15th and last day, Berlin time",
		"every year on 24 dec":                         "every year on 24 dec, Berlin time",
		"every 10 days at 01:00 from 2026-01-31":       "every 10 days at 01:00, counted from 2026-01-31, Berlin time",
		"at:2026-01-31T09:00:00+01:00":                 "once, 2026-01-31 08:00:00 UTC",
		"after:load,transform":                         "after load and transform",
	} {
		s, err := ParseText(text, berlin)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := s.Describe(); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if got := (Schedule{}).Describe(); got != "only when triggered" {
		t.Errorf("no schedule: %q", got)
	}
}

func TestDescribeZones(t *testing.T) {
	for name, want := range map[string]string{
		"UTC": "every hour, UTC", "America/Argentina/Buenos_Aires": "every hour, Buenos Aires time", "Etc/GMT+3": "every hour, Etc/GMT+3",
	} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := ParseText("@hourly", zone)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Describe(); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestDescribeHasCalendarsAndJitter(t *testing.T) {
	s, err := ParseText("@daily", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	s = s.WithCalendars(&Calendar{name: "holidays"}, &Calendar{name: "freeze"})
	for jitter, words := range map[time.Duration]string{
		30 * time.Second: "30s", time.Minute: "1m", 90 * time.Second: "1m30s", time.Hour: "1h",
		24 * time.Hour: "24h", 500 * time.Millisecond: "500ms",
	} {
		if got, want := s.WithJitter(jitter).Describe(), "every day at 00:00, UTC, but not when "+
			"holidays and freeze exclude it, up to "+words+" later"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Every schedule that can be parsed has a description of one line.
func FuzzDescribe(f *testing.F) {
	for _, text := range []string{"*/5 * * * *", "0 0 1,15 * 1", "quartz:0 0 12 ? * 6#3",
		"0 0 31 2-4 *", "every 20m between 22:00 and 02:00", "1-59/2 * * * * *"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseText(text, time.UTC)
		if err != nil {
			return
		}
		if words := s.Describe(); strings.TrimSpace(words) == "" ||
			len(strings.Fields(text)) > 0 && strings.ContainsAny(words, "\n\x00") &&
				!strings.ContainsAny(text, "\n\x00") {
			t.Errorf("%q reads %q", text, words)
		}
	})
}
