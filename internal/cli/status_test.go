package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/internal/app"
)

// status runs the command status and returns its output and exit code.
func status(t *testing.T, config string, args ...string) (string, int) {
	t.Helper()
	var out, errOut bytes.Buffer
	err := Execute(t.Context(), append([]string{"status", "-c", config}, args...), &out, &errOut,
		app.Options{})
	var own *ExitError
	switch {
	case err == nil:
		return out.String(), 0
	case !errors.As(err, &own):
		t.Fatalf("error without an exit code: %v", err)
	}
	return out.String(), own.Code
}

func TestStatus(t *testing.T) {
	config := filepath.Join(t.TempDir(), "holdfast.yaml")
	if _, code := status(t, config); code != unknownStatus {
		t.Errorf("without a configuration the exit code is %d", code)
	}
	text := fmt.Sprintf("database: {url: %q}\njobs: []\n",
		"sqlite://"+filepath.Join(t.TempDir(), "holdfast.db"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, code := status(t, config, "--wrong"); code != unknownStatus {
		t.Errorf("with a wrong flag the exit code is %d", code)
	}
	var out bytes.Buffer
	if err := Execute(t.Context(), []string{"migrate", "-c", config}, &out, &out,
		app.Options{}); err != nil {
		t.Fatal(err)
	}
	table, code := status(t, config)
	if code != 2 || !strings.HasPrefix(table, "RED: No replica can start runs\n") ||
		!strings.Contains(table, "SQLite: answers") {
		t.Errorf("without a replica: %d, %s", code, table)
	}
	answer, code := status(t, config, "-o", "json")
	var v admin.Status
	if err := json.Unmarshal([]byte(answer), &v); err != nil || code != 2 ||
		v.Severity != admin.Red {
		t.Errorf("got exit code %d, %s (%v), want 2 and a red verdict", code, answer, err)
	}
}

// TestStatusNamesPauses checks that the command lists the pauses of which the next firings are a
// consequence.
func TestStatusNamesPauses(t *testing.T) {
	config := explainedStore(t)
	if out, _ := status(t, config); !strings.Contains(out, "\nNEXT ") ||
		strings.Contains(out, "PAUSED") {
		t.Errorf("without a pause, got\n%s", out)
	}
	runs(t, config, "pause", "nightly")
	runs(t, config, "pause", "--all", "--reason", "maint")
	out, _ := status(t, config)
	_, table, found := strings.Cut(out, "\nPAUSED ")
	lines := strings.Split(table, "\n")
	if !found || strings.Contains(out, "\nNEXT ") || len(lines) < 3 {
		t.Fatalf("want the pauses and no firings in\n%s", out)
	}
	if !strings.HasPrefix(lines[1], "job nightly  ") ||
		!strings.HasPrefix(lines[2], "everything   ") || !strings.HasSuffix(lines[2], "  maint") {
		t.Errorf("got the pauses\n%s", table)
	}
}

// TestStatusWithoutTheStore checks that the command reports an unavailable database as a status and
// not as an error.
func TestStatusWithoutTheStore(t *testing.T) {
	config := filepath.Join(t.TempDir(), "holdfast.yaml")
	const text = "database: {url: \"postgres://nobody@127.0.0.1:1/none\"}\njobs: []\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := status(t, config); code != 2 ||
		!strings.HasPrefix(out, "RED: PostgreSQL does not answer\n") {
		t.Errorf("got exit code %d, %s, want 2 and that PostgreSQL does not answer", code, out)
	}
}

// TestStatusOfAnUnknownSeverity has a server of a version with other severities.
func TestStatusOfAnUnknownSeverity(t *testing.T) {
	server := serverOf(t, "200 OK\r\nContent-Type: application/json\r\n\r\n"+
		`{"status": {"severity": "purple", "headline": "x"}}`)
	if got := perform(t, nil, "status", "--server", server); got.code != unknownStatus ||
		got.out != "PURPLE: x\n\n" {
		t.Errorf("got %+v, want the status and exit code %d", got, unknownStatus)
	}
}

// The first of the failures that were read may not be the first failure.
func TestFailuresThatAreLowerBounds(t *testing.T) {
	for atLeast, want := range map[bool][]string{false: {"mails", "20", "20s", "no route"},
		true: {"mails", "20 or more", "20s or more", "no route"}} {
		var o admin.Overview
		if err := json.Unmarshal(fmt.Appendf(nil, `{"now": "2026-03-14T03:12:15Z", "failing": [{
			"error": "no route", "jobs": [{"job": "mails", "failures": 20, "at_least": %v,
			"since": "2026-03-14T03:11:55Z"}]}]}`, atLeast), &o); err != nil {
			t.Fatal(err)
		}
		if got := failingRows(o); len(got) != 1 || !slices.Equal(got[0], want) {
			t.Errorf("at least %v: got %q, want %q", atLeast, got, want)
		}
	}
}
