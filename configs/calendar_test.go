package configs

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The calendars remove scheduled times. One calendar file is found beside the configuration.
func TestCalendarsOfJobs(t *testing.T) {
	name := filepath.Join("testdata", "somewhere.yaml")
	c, err := Parse(name, []byte(`
timezone: Europe/Berlin
calendars:
  - name: holidays
    exclude: {dates: [12-24..12-26], files: [holidays.ics]}
  - name: business-hours
    timezone: America/New_York
    only: {weekdays: [mon-fri], windows: ["09:00-17:00"]}
jobs:
  - {name: a, handler: sql, schedule: "0 9 * * *", calendars: [holidays]}
  - {name: b, handler: sql, schedule: "0 */3 * * *", calendars: [holidays, business-hours], jitter: 1m, clock_changes: {gap: skip, overlap: both}}
  - {name: c, handler: sql, schedule: "0 9 * * *"}
`), WithEnv(noEnv))
	if err != nil {
		t.Fatal(err)
	}
	from := time.Date(2026, 10, 2, 12, 0, 0, 0, time.UTC)
	for i, want := range []string{
		"10-04 09:00 CEST, 10-05 09:00 CEST",
		"10-02 15:00 CEST, 10-02 18:00 CEST, 10-02 21:00 CEST, 10-05 15:00 CEST",
		"10-03 09:00 CEST, 10-04 09:00 CEST",
	} {
		s := c.Jobs[i].Schedule
		var got []string
		for _, scheduledAt := range s.Upcoming(from, strings.Count(want, ",")+1) {
			got = append(got, scheduledAt.In(s.Zone()).Format("01-02 15:04 MST"))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: got scheduled times %s, want %s", c.Jobs[i].Name, strings.Join(got, ", "),
				want)
		}
	}
	if calendar, ok := c.Jobs[0].Schedule.Excluded(time.Date(2026, 10, 3, 7, 0, 0, 0,
		time.UTC)); calendar != "holidays" || !ok {
		t.Errorf("the holiday is excluded by %q", calendar)
	}
	if print := c.Jobs[1].Schedule.Fingerprint(); !strings.HasPrefix(print,
		`0 */3 * * *; gap:skip; overlap:both; jitter:1m0s; calendar:"holidays" `) || !strings.Contains(print, `; calendar:"business-hours" `) {
		t.Errorf("fingerprint: %s", print)
	}
	if s := c.Jobs[2].Schedule; s.Fingerprint() != s.String() {
		t.Errorf("fingerprint: %s", s.Fingerprint())
	}
}

// Build finds the calendar files of a configuration that was read from a file beside that file.
func TestBuildFindsCalendarFiles(t *testing.T) {
	read, err := Parse(filepath.Join("testdata", "somewhere.yaml"), []byte(
		"calendars: [{name: h, exclude: {files: [holidays.ics]}}]\n"+
			job(`schedule: "0 9 * * *", calendars: [h]`)))
	if err != nil {
		t.Fatal(err)
	}
	built, err := Build(*read)
	if err != nil {
		t.Fatal(err)
	}
	got, want := built.Jobs[0].Schedule.Fingerprint(), read.Jobs[0].Schedule.Fingerprint()
	if got != want {
		t.Errorf("got the schedule %s, want %s", got, want)
	}
}

// A file may have only events with times of day, which begin after most years of the calendar.
func TestCalendarOfOpeningHours(t *testing.T) {
	c, err := Parse(filepath.Join("testdata", "somewhere.yaml"), []byte(`
calendars: [{name: open, only: {files: [open.ics]}}]
jobs: [{name: a, handler: sql, schedule: "0 9 * * *", calendars: [open]}]
`), WithEnv(noEnv))
	if err != nil {
		t.Fatal(err)
	}
	want := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	if got := c.Jobs[0].Schedule.Next(time.Time{}); got != want {
		t.Errorf("the first scheduled time is %s, want %s", got, want)
	}
}

// The mistakes of the configuration itself come first, whatever the names of the other files.
func TestMistakesInOtherFilesComeLast(t *testing.T) {
	text := "calendars: [{name: h, exclude: {files: [wrong.txt, wrong.ics]}}]\n\n\n\n\nworkers: 0"
	_, err := Parse(filepath.Join("testdata", "z.yaml"), []byte(text), WithEnv(noEnv))
	if err == nil {
		t.Fatal("invalid configuration: got success, want an error")
	}
	var positions []string
	for line := range strings.Lines(filepath.ToSlash(err.Error())) {
		position, _, _ := strings.Cut(line, ": ")
		positions = append(positions, position)
	}
	if got, want := strings.Join(positions, " "),
		"testdata/z.yaml:6:10 testdata/wrong.ics:4:1 testdata/wrong.txt:3:1"; got != want {
		t.Errorf("mistakes at %s, want %s", got, want)
	}
}
