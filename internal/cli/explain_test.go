package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const explainConfig = `
database: {url: "sqlite://explain.db"}
calendars:
  - name: holidays
    exclude: {dates: [2026-03-30]}
jobs:
  - {name: nightly, handler: command, schedule: "30 2 * * *", timezone: Europe/Berlin, calendars: [holidays], params: {command: ["true"]}}
  - {name: report, handler: command, schedule: {after: [nightly]}, timezone: Europe/Berlin, params: {command: ["true"]}}
`

// explainedStore makes a store with the jobs of explainConfig and one skipped run. It returns the
// path of the configuration.
func explainedStore(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "holdfast.yaml")
	if err := os.WriteFile(path,
		[]byte(strings.Replace(explainConfig, "explain.db",
			filepath.Join(t.TempDir(), "explain.db"), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := configs.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	store, err := openDatabase(t.Context(), config, true, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	session := uuid.New()
	if err := store.Open(t.Context(),
		storage.Session{ID: session, Replica: "a", TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	definitions := []storage.Definition{{Name: "nightly", Hash: "h", Schedule: "30 2 * * *",
		Zone: "Europe/Berlin"}, {Name: "report", Hash: "h", Schedule: "after:nightly",
		Zone: "Europe/Berlin"}}
	if _, err := store.Register(t.Context(), session, definitions); err != nil {
		t.Fatal(err)
	}
	_, err = store.Note(t.Context(), session, []storage.Note{{
		Run: uuid.New(), Firing: storage.Firing{Job: "nightly",
			ScheduledAt: time.Date(2026, 3, 29, 1, 0, 0, 0,
				time.UTC)}, Version: 1, State: jobs.Skipped,
		Reason: reasons.LockHeld,
		Detail: "public/orders was held by job import on b; tried 5 times in 7.5s",
	}})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestExplainOfAnAddedJob explains a job that was added at run time.
func TestExplainOfAnAddedJob(t *testing.T) {
	path := explainedStore(t)
	file := filepath.Join(t.TempDir(), "added.yaml")
	if err := os.WriteFile(file, []byte(`{name: added, handler: command, schedule: "30 2 * * *",
		timezone: Europe/Berlin, calendars: [holidays], params: {command: ["true"]}}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	commandOutput(t, "add", "-c", path, "-f", file)
	var e explain.Explanation
	if err := json.Unmarshal([]byte(commandOutput(t, "explain", "-c", path, "added",
		"2026-03-30 02:30", "-o", "json")), &e); err != nil {
		t.Fatal(err)
	}
	if e.Verdict != explain.VerdictExcluded || e.ExcludedBy != "holidays" {
		t.Errorf("got %+v, want the verdict excluded by holidays", e)
	}
}

// TestExplainListsATriggeredRunOnce explains a time near which a run was triggered.
func TestExplainListsATriggeredRunOnce(t *testing.T) {
	path := explainedStore(t)
	commandOutput(t, "trigger", "-c", path, "nightly", "--key", "k")
	out := commandOutput(t, "explain", "-c", path, "nightly", "now")
	if strings.Count(out, "\ntriggered ") != 1 || strings.Count(out, ", key k, at ") != 1 ||
		strings.Contains(out, "a trigger added a run") {
		t.Errorf("want the run once in\n%s", out)
	}
}

func TestExplainCommand(t *testing.T) {
	path := explainedStore(t)
	const skipped = "It was skipped (lock_held): public/orders was held by job import on b; " +
		"tried 5 times in 7.5s."
	for _, scheduledAt := range [][]string{{"2026-03-29T01:00:00Z"}, {"2026-03-29 03:00"},
		{"2026-03-29", "02:30"}} {
		out := commandOutput(t, append([]string{"explain", "-c", path, "nightly"},
			scheduledAt...)...)
		if first, _, _ := strings.Cut(out, "\n"); first != skipped {
			t.Errorf("%q: got %s, want %q in the first line", scheduledAt, out, skipped)
		}
		for _, want := range []string{"scheduled before  Sat 2026-03-28 02:30:00 CET   " +
			"2026-03-28T01:30:00Z",
			"scheduled after   Tue 2026-03-31 02:30:00 CEST  2026-03-31T00:30:00Z",
			"clocks            02:00 to 03:00 does not exist: run after the gap"} {
			if !strings.Contains(strings.ReplaceAll(out, "CET  ", "CET   "), want) {
				t.Errorf("%q: want %q in\n%s", scheduledAt, want, out)
			}
		}
	}
	var e explain.Explanation
	if err := json.Unmarshal([]byte(commandOutput(t, "explain", "-c", path, "nightly",
		"2026-03-30 02:30", "-o", "json")), &e); err != nil {
		t.Fatal(err)
	}
	if e.Verdict != explain.VerdictExcluded || e.ExcludedBy != "holidays" {
		t.Errorf("got %+v, want the verdict excluded by holidays", e)
	}
	if out := commandOutput(t, "explain", "-c", path, "report",
		"2026-03-29 03:00"); !strings.HasPrefix(out,
		"It was not run, because its dependency nightly did not succeed: it was skipped") {
		t.Errorf("got %s, want the skipped dependency as the cause", out)
	}
	for want, args := range map[string][]string{
		`unknown job "nightyl"; did you mean "nightly"?`:                                                             {"nightyl", "2026-03-29 02:30"},
		`expected a time such as 2026-01-31T09:00:00Z, 2026-01-31 09:00, yesterday 09:00, -2h or now, found "today"`: {"nightly", "today"},
	} {
		var out, errOut bytes.Buffer
		err := Execute(t.Context(), append([]string{"explain", "-c", path}, args...), &out, &errOut,
			app.Options{})
		if err == nil || err.Error() != want {
			t.Errorf("%v: %v, want %s", args, err, want)
		}
	}
}
