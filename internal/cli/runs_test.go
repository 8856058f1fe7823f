package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// retriedStore makes a store with a run that succeeded in its second attempt.
func retriedStore(t *testing.T) (path string, run uuid.UUID) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "holdfast.yaml")
	text := `
database: {url: "sqlite://` + filepath.Join(t.TempDir(), "runs.db") + `"}
jobs:
  - {name: nightly, handler: command, schedule: "@daily", params: {command: ["true"]}}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
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
	session := storage.Session{ID: uuid.New(), Replica: "web-1", TTL: time.Minute}
	if err := store.Open(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	run = uuid.New()
	for n, finish := range []storage.FinishRequest{
		{State: jobs.Waiting, Error: "no space left", Output: "first\n",
			Attempt: storage.AttemptEnd{State: jobs.TimedOut}},
		{State: jobs.Succeeded, Output: "second\n"},
	} {
		results, err := store.Start(t.Context(), session.ID, []storage.StartRequest{{Run: run,
			Firing:  storage.Firing{Job: "nightly", ScheduledAt: time.Now().Truncate(time.Hour)},
			Attempt: n + 1, WaitSince: time.Now()}})
		if err != nil || results[0].Outcome != storage.StartGranted {
			t.Fatalf("start of attempt %d: %+v, %v", n+1, results, err)
		}
		finish.Run, finish.Token = run, results[0].Token
		if _, err := store.Finish(t.Context(), []storage.FinishRequest{finish}); err != nil {
			t.Fatal(err)
		}
	}
	return path, run
}

func TestRunsCommandShowsAttempts(t *testing.T) {
	path, run := retriedStore(t)
	for attempt, c := range map[string]struct{ want, not string }{
		"0": {"second", "first"}, "1": {"first", "second"}, "2": {"second", "first"},
	} {
		out := commandOutput(t, "runs", "-c", path, run.String(), "--attempt", attempt)
		for _, want := range []string{"attempt 1", "timed_out on web-1, started ",
			": no space left", "attempt 2", "succeeded on web-1", c.want} {
			if !strings.Contains(out, want) {
				t.Errorf("--attempt %s: got %s, want %q in it", attempt, out, want)
			}
		}
		if strings.Contains(out, c.not) {
			t.Errorf("--attempt %s: got %s, want no output of another attempt", attempt, out)
		}
	}
	var shown admin.RunDetail
	if err := json.Unmarshal([]byte(commandOutput(t, "runs", "-c", path, run.String(), "-o",
		"json")), &shown); err != nil {
		t.Fatal(err)
	}
	if len(shown.Attempts) != 2 || shown.Attempts[0].Error != "no space left" ||
		shown.Output != "second\n" {
		t.Errorf("got %+v, want two attempts and the output of the last", shown)
	}
	for want, args := range map[string][]string{
		"attempt 7 of run " + run.String() + ": not found in the history": {run.String(),
			"--attempt", "7"},
		"--attempt: expected a run, found none": {"--attempt", "1"},
	} {
		var out, errOut bytes.Buffer
		err := Execute(t.Context(), append([]string{"runs", "-c", path}, args...), &out, &errOut,
			app.Options{})
		if err == nil || err.Error() != want {
			t.Errorf("%v: %v, want %s", args, err, want)
		}
	}
}

// TestRunsCommandFiltersByJobs asks a store with one run of the job nightly, which has no group.
func TestRunsCommandFiltersByJobs(t *testing.T) {
	s := serve(t)
	token := s.token(t, operatorToken)
	for _, by := range [][]string{{"-c", s.config}, {"--server", s.server, "--token-file", token}} {
		for _, test := range []struct {
			flag, value string
			found       bool
		}{
			{"--job", "nightly", true}, {"--job", "night*", true}, {"--job", "*", true},
			{"--job", "week*", false}, {"--job", "ightly*", false}, {"--group", "reports", false},
		} {
			got := perform(t, nil, slices.Concat([]string{"runs"}, by,
				[]string{test.flag, test.value})...)
			if found := strings.Contains(got.out, s.ended.String()); got.code != 0 ||
				found != test.found {
				t.Errorf("%s %s finds the run: %t, want %t: %+v", test.flag, test.value, found,
					test.found, got)
			}
		}
	}
}

// TestRunsCommandNotesUnknownNames checks the note for a list that is empty because of a name that
// the cluster does not have.
func TestRunsCommandNotesUnknownNames(t *testing.T) {
	path, _ := retriedStore(t)
	for _, test := range [][3]string{
		{"--replica", "nope", "scheduler: note: no replica has the name \"nope\" now\n"},
		{"--group", "nope", "scheduler: note: no job is in group \"nope\" now\n"},
		{"--replica", "web-1", ""},
	} {
		if got := perform(t, nil, "runs", "-c", path, "--state", "failed", test[0],
			test[1]); got.code != 0 || got.notes != test[2] {
			t.Errorf("%s %s: got %+v, want the note %q", test[0], test[1], got, test[2])
		}
	}
}
