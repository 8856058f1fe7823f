package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the tests name zones

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// commandOutput runs a command line and returns its output.
func commandOutput(t *testing.T, args ...string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	if err := Execute(t.Context(), args, &out, &errOut, app.Options{}); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return out.String()
}

func TestNextOfExpressions(t *testing.T) {
	for _, c := range []struct {
		text, zone, from string
		want             []string
	}{
		{"quartz:0 0 12 L * ?", "Europe/Berlin", "2026-01-01T00:00:00Z", []string{"2026-01-31T12:00:00+01:00", "2026-02-28T12:00:00+01:00", "2026-03-31T12:00:00+02:00"}},
		{"every 20m between 09:00 and 17:00 on mon-fri", "UTC", "2026-01-02T16:50:00Z", []string{"2026-01-02T17:00:00Z", "2026-01-05T09:00:00Z"}},
		{"every 1 month at 02:30", "Europe/Berlin", "2026-01-02T00:00:00Z", []string{"2026-02-01T02:30:00+01:00"}},
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", []string{"2026-03-29T03:00:00+02:00"}},
		{"at:2026-01-31T09:00:00Z", "UTC", "2026-01-31T09:00:00Z", []string{}},
		{"after:a,b", "UTC", "2026-01-31T09:00:00Z", []string{}},
	} {
		n := max(1, len(c.want))
		out := commandOutput(t, "next", "--schedule", c.text, "--timezone", c.zone, "--from",
			c.from, "-n", strconv.Itoa(n), "-o", "json")
		var got []string
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%s: %v: %s", c.text, err, out)
		}
		if got == nil || strings.Join(got, " ") != strings.Join(c.want, " ") {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
		}
	}
}

// TestNextMarksClockChanges checks the column CLOCKS at a clock change.
func TestNextMarksClockChanges(t *testing.T) {
	out := commandOutput(t, "next", "--schedule", "30 2 * * *", "--timezone", "Europe/Berlin",
		"--from", "2026-03-28T12:00:00Z", "-n", "2")
	want := `SCHEDULED                     UTC                   CLOCKS
Sun 2026-03-29 03:00:00 CEST  2026-03-29T01:00:00Z  02:00 to 03:00 does not exist: run after the gap; clocks went forward by 1h
Mon 2026-03-30 02:30:00 CEST  2026-03-30T00:30:00Z  
`
	if out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}

const nextConfig = `
calendars:
  - name: holidays
    exclude: {dates: [2026-03-30]}
jobs:
  - {name: a, handler: command, schedule: "30 2 * * *", timezone: Europe/Berlin, calendars: [holidays], params: {command: ["true"]}}
  - {name: b, handler: command, schedule: "0 12 * * mon", timezone: Europe/Berlin, params: {command: ["true"]}}
`

func TestNextShowsExclusions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast.yaml")
	if err := os.WriteFile(path, []byte(nextConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"next", "-c", path, "--from", "2026-03-28T12:00:00Z", "-n", "3"}
	want := `SCHEDULED                     UTC                   JOB  REMARK
Sun 2026-03-29 03:00:00 CEST  2026-03-29T01:00:00Z  a    02:00 to 03:00 does not exist: run after the gap; clocks went forward by 1h
Mon 2026-03-30 02:30:00 CEST  2026-03-30T00:30:00Z  a    excluded by holidays
Mon 2026-03-30 12:00:00 CEST  2026-03-30T10:00:00Z  b    clocks went forward by 1h
Tue 2026-03-31 02:30:00 CEST  2026-03-31T00:30:00Z  a    
`
	if out := commandOutput(t, append(args, "--excluded")...); out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	var firings []upcomingFiring
	if err := json.Unmarshal([]byte(commandOutput(t, append(args, "-o", "json")...)),
		&firings); err != nil {
		t.Fatal(err)
	}
	if len(firings) != 3 || firings[2].Job != "a" ||
		!firings[2].ScheduledAt.Equal(time.Date(2026, 3, 31, 0, 30, 0, 0, time.UTC)) ||
		firings[2].ExcludedBy != "" {
		t.Errorf("got %+v", firings)
	}
}

// TestNextOfAnExpressionAsAJob checks the advice for an expression without --schedule.
func TestNextOfAnExpressionAsAJob(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast.yaml")
	if err := os.WriteFile(path, []byte(nextConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"*/5 * * * *":  `; for a schedule expression, use --schedule "*/5 * * * *"`,
		"*/61 * * * *": `; for a schedule expression, use --schedule "*/61 * * * *"`,
		"every:soon":   `; for a schedule expression, use --schedule "every:soon"`,
		"@dayly":       `; for a schedule expression, use --schedule "@dayly"`,
		"a?":           `; did you mean "a"?`,
		"c":            `; did you mean "a"?`,
	} {
		if got := perform(t, nil, "next", name, "-c", path); got.err != fmt.Sprintf(
			"job %q: not found in %s%s", name, path, want) {
			t.Errorf("got %+v, want %q at its end", got, want)
		}
	}
}

// TestNextHoldsFewFirings checks the capacity of the list, which is the largest number of firings
// that it had.
func TestNextHoldsFewFirings(t *testing.T) {
	var text strings.Builder
	text.WriteString("jobs:\n")
	for i := range 50 {
		fmt.Fprintf(&text, "  - {name: j%02d, handler: command, schedule: '%d * * * *', "+
			"params: {command: ['true']}}\n", i, i)
	}
	config, err := configs.Parse("holdfast.yaml", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	const count = 100
	from := time.Date(2026, 3, 1, 0, 30, 0, 0, time.UTC)
	table := explain.TableOf(app.Jobs(config)).Job
	firings := firingsOfAll(config.Jobs, table, from, count, false)
	if len(firings) != count || cap(firings) > 4*count {
		t.Fatalf("got %d firings and room for %d, want %d and few more", len(firings),
			cap(firings), count)
	}
	for i, f := range firings { // minutes 31 to 49, and then 0 to 49 of each hour
		minute := (i + 31) % 50
		at := from.Truncate(time.Hour).Add(time.Duration((i+31)/50) * time.Hour).
			Add(time.Duration(minute) * time.Minute)
		if f.Job != fmt.Sprintf("j%02d", minute) || !f.ScheduledAt.Equal(at) {
			t.Errorf("firing %d: got %s at %s, want minute %d at %s", i, f.Job, f.ScheduledAt,
				minute, at)
		}
	}
}

func TestNextShowsJitterAndDependencies(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast.yaml")
	text := strings.Replace(nextConfig, "schedule: \"0 12 * * mon\"",
		"jitter: 10m, schedule: \"0 12 * * mon\"", 1) +
		"  - {name: c, handler: command, schedule: {after: [a, d]}, timezone: Europe/Berlin, " +
		"params: {command: [\"true\"]}}\n" +
		"  - {name: d, handler: command, schedule: \"30 2 * * mon-sat\", timezone: " +
		"Europe/Berlin, params: {command: [\"true\"]}}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for job, want := range map[string]string{
		"b": "Mon 2026-03-30 12:00:00 CEST  2026-03-30T10:00:00Z  b    starts " + schedule.Jitter("b", time.Date(2026, 3, 30, 10, 0, 0, 0, time.UTC), 10*time.Minute).Round(time.Second).String() + " later; clocks went forward by 1h",
		// d has no scheduled time on the 29th, and a has none on the 30th.
		"c": "Tue 2026-03-31 02:30:00 CEST  2026-03-31T00:30:00Z  c    after success of a, d",
	} {
		out := commandOutput(t, "next", "-c", path, "--from", "2026-03-28T12:00:00Z", "-n", "1",
			job)
		if _, row, _ := strings.Cut(out, "\n"); strings.TrimSpace(row) != want {
			t.Errorf("got\n%swant\n%s", row, want)
		}
	}
	var out, errOut bytes.Buffer
	if err := Execute(t.Context(), []string{"next", "-c", path, "aa"}, &out, &errOut,
		app.Options{}); err == nil || !strings.Contains(err.Error(), `did you mean "a"?`) {
		t.Errorf("an unknown job: %v", err)
	}
}
