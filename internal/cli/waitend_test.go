package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// waitingStore makes a store with a run that holds public/orders, and one that has waited for it
// since the given time.
func waitingStore(t *testing.T, since time.Time) (path string, waiter uuid.UUID) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "holdfast.yaml")
	text := `
database: {url: "sqlite://` + filepath.Join(t.TempDir(), "runs.db") + `"}
jobs:
  - {name: hog, handler: command, schedule: "@yearly", params: {command: ["true"]}}
  - name: waiter
    handler: command
    schedule: "@yearly"
    params: {command: ["true"]}
    tables: [orders]
    wait: {attempts: 31, delay: 1m, backoff: constant, max_delay: 1m, jitter: 0}
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
	orders, err := locking.ParseDisplay("public/orders")
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range []string{"hog", "waiter"} {
		waiter = uuid.New()
		results, err := store.Start(t.Context(), session.ID, []storage.StartRequest{{Run: waiter,
			Firing:  storage.Firing{Job: job, ScheduledAt: since},
			Attempt: 1, WaitSince: since,
			Requests: []locking.Request{{Resource: orders, Mode: locking.Exclusive}}}})
		if err != nil || results[0].Outcome != storage.StartGranted && job == "hog" ||
			results[0].Outcome != storage.StartBlocked && job == "waiter" {
			t.Fatalf("start of %s: %+v, %v", job, results, err)
		}
	}
	return path, waiter
}

// TestCommandsShowTheEndOfAWait checks that lists of runs, one run and the status say until when a
// run waits: in a column for people, and in the JSON.
func TestCommandsShowTheEndOfAWait(t *testing.T) {
	since := time.Now().UTC().Truncate(time.Second).Add(-time.Minute)
	path, waiter := waitingStore(t, since)
	until := since.Add(30 * time.Minute)
	want := "about " + clock(&until)
	status, _ := status(t, path)
	for name, out := range map[string]string{
		"runs":   commandOutput(t, "runs", "-c", path, "--state", "waiting"),
		"status": status,
	} {
		if !strings.Contains(out, "WAITS UNTIL") || !strings.Contains(out, want) {
			t.Errorf("%s: got %s, want the column WAITS UNTIL with %q", name, out, want)
		}
	}
	out := commandOutput(t, "runs", "-c", path, waiter.String())
	if !regexp.MustCompile(`waits_until +` + regexp.QuoteMeta(want)).MatchString(out) {
		t.Errorf("of one run: got %s, want waits_until %s", out, want)
	}
	var list []storage.Record
	answer := commandOutput(t, "runs", "-c", path, "-o", "json")
	if err := json.Unmarshal([]byte(answer), &list); err != nil || len(list) != 2 {
		t.Fatalf("got %s, %v, want two runs", answer, err)
	}
	for _, run := range list {
		if run.ID != waiter {
			if run.WaitEnd != nil {
				t.Errorf("the run of %s has the end of a wait: %+v", run.Job, run.WaitEnd)
			}
			continue
		}
		if end := (storage.WaitEnd{At: until, Estimated: true}); run.WaitEnd == nil ||
			*run.WaitEnd != end {
			t.Errorf("the wait ends %+v, want %+v", run.WaitEnd, end)
		}
	}
	if out := commandOutput(t, "runs", "-c", path, "--state", "running"); strings.Contains(out,
		"WAITS UNTIL") {
		t.Errorf("got %s, want no column for waits without a waiting run", out)
	}
}
