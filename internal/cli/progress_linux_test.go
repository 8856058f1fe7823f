package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// cleared ends what a bar has drawn: the line is empty again.
const cleared = "\x1b[2K\r"

func TestProgressOnATerminal(t *testing.T) {
	for name, c := range map[string]struct {
		all  int
		want []string
	}{
		"a bar":     {4, []string{"backfill of x", " 25% |", "(1/4)", "[4s]", "(2/4)"}},
		"a spinner": {0, []string{"backfill of x", "[4s]"}},
	} {
		s := openScreen(t, 80)
		synctest.Test(t, func(*testing.T) {
			line := &commandLine{errOut: s.terminal, getenv: func(string) string { return "" }}
			p := line.progress("backfill\nof x", c.all)
			p.set(1)
			time.Sleep(5 * time.Second)
			p.set(2)
			p.end()
			p.end()
			time.Sleep(5 * time.Second) // nothing is drawn after the end
		})
		got := s.text(t)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: got %q, want %q in it", name, got, want)
			}
		}
		if !strings.HasSuffix(got, cleared) || strings.Contains(got, "\n") {
			t.Errorf("%s: got %q, want one line that is empty in the end", name, got)
		}
	}
}

// TestProgressElsewhere checks that a pipe, a file and a terminal without a cursor get nothing.
func TestProgressElsewhere(t *testing.T) {
	reader, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var buffer bytes.Buffer
	dumb := openScreen(t, 80)
	for term, out := range map[string]io.Writer{"xterm": pipe, "": &buffer, "dumb": dumb.terminal} {
		synctest.Test(t, func(*testing.T) {
			line := &commandLine{errOut: out, getenv: func(string) string { return term }}
			p := line.progress("backfill", 4)
			p.set(2)
			time.Sleep(time.Minute)
			p.end()
		})
	}
	if err := pipe.Close(); err != nil {
		t.Fatal(err)
	}
	piped, err := io.ReadAll(reader)
	if on := dumb.text(t); err != nil || len(piped) > 0 || buffer.Len() > 0 || on != "" {
		t.Errorf("got %q, %q and %q (%v), want nothing", piped, buffer.String(), on, err)
	}
}

// TestCommandsShowProgress runs commands that wait on a terminal, and one with a pipe.
func TestCommandsShowProgress(t *testing.T) {
	s := serve(t)
	from := time.Now().Add(-22 * 24 * time.Hour).UTC().Format(time.RFC3339)
	var out bytes.Buffer
	terminal := openScreen(t, 100)
	if err := performOn(t, &out, terminal.terminal, "backfill", "weekly", "--from", from, "--wait",
		"-c", s.config); err != nil || !strings.Contains(out.String(), "completed") {
		t.Errorf("backfill: got %q and %v, want it completed", out.String(), err)
	}
	if on := terminal.text(t); !strings.Contains(on, "backfill of weekly") ||
		!strings.HasSuffix(on, cleared) {
		t.Errorf("backfill: got %q, want the progress and an empty line in the end", on)
	}
	got := perform(t, nil, "trigger", "weekly", "--wait", "-c", s.config)
	if got.code != 0 || got.notes != "" || !strings.Contains(got.out, "succeeded") {
		t.Errorf("trigger: got %+v, want nothing on standard error", got)
	}
}

// TestWaitsShowASpinner waits for a run that ends late.
func TestWaitsShowASpinner(t *testing.T) {
	s := openScreen(t, 100)
	id := uuid.New()
	synctest.Test(t, func(t *testing.T) {
		c := &commandLine{out: io.Discard, errOut: s.terminal,
			getenv: func(string) string { return "" }}
		if err := c.awaitRun(t.Context(), lateCluster{}, id); err != nil {
			t.Error(err)
		}
	})
	if on := s.text(t); !strings.Contains(on, "waiting for run "+id.String()) ||
		!strings.Contains(on, "[59s]") || !strings.HasSuffix(on, cleared) {
		t.Errorf("got %q, want the progress and an empty line in the end", on)
	}
}

// lateCluster has runs that succeed after a minute.
type lateCluster struct{ cluster }

func (lateCluster) Wait(_ context.Context, id uuid.UUID) (storage.Record, error) {
	time.Sleep(time.Minute)
	return storage.Record{ID: id, State: jobs.Succeeded}, nil
}

// TestMigrationsShowASpinner migrates while another migration holds its lock.
func TestMigrationsShowASpinner(t *testing.T) {
	if server == nil {
		t.Skip("needs PostgreSQL: run without -short")
	}
	address := server.Database(t)
	path := filepath.Join(t.TempDir(), "holdfast.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, "database: {url: %q}\n", address),
		0o600); err != nil {
		t.Fatal(err)
	}
	other, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close(context.Background()) })
	if _, err := other.Exec(t.Context(),
		"SELECT pg_advisory_lock(hashtextextended('migrate holdfast.meta', 0))"); err != nil {
		t.Fatal(err)
	}
	s, done := openScreen(t, 100), make(chan error, 1)
	go func() {
		err := performOn(t, io.Discard, s.terminal, "migrate", "-c", path)
		done <- errors.Join(err, s.terminal.Close())
	}()
	s.await(t, "migrating the schema")
	if err := other.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if on := s.text(t); !strings.HasSuffix(on, cleared) {
		t.Errorf("got %q, want an empty line in the end", on)
	}
}
