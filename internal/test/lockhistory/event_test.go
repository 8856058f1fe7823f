package lockhistory

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

func TestEventRoundTrip(t *testing.T) {
	want := []Event{
		{At: Now(), Process: "one", Kind: Acquire, Lock: "one/1", Requests: []Request{exclusive("a b/ü"), slot("s", 3), shared(`"`)}},
		{At: Now(), Process: "one", Kind: Granted, Lock: "one/1", Token: 41, Session: uuid.New()},
		{At: Now(), Process: "one", Kind: Confirmed, Session: uuid.New(), TTL: 3, Replica: "r"},
		{At: Now(), Process: "one", Kind: CommitUnclear, Lock: "one/1", Number: 2, Text: "line\nline"},
	}
	var file bytes.Buffer
	r := NewRecorder(&file, "one")
	for _, e := range want {
		e.Process = ""
		r.record(e)
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	compare := func(text string, want []Event) {
		t.Helper()
		got, err := Read(strings.NewReader(text))
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b locking.Resource) bool {
			return a == b
		})); diff != "" || err != nil {
			t.Errorf("read with %v: %s", err, diff)
		}
	}
	compare(file.String(), want)
	// The process was killed while it wrote the last line.
	compare(strings.TrimSuffix(file.String(), "\n"), want[:3])
}

func TestReadRefusesUnknownEvents(t *testing.T) {
	for _, text := range []string{"garbage\n",
		`{"kind":"acquire","requests":[{"resource":"gate:a","mode":"shared"}]}` + "\n", "{}\n\n"} {
		if events, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("%q gave %v", text, events)
		}
	}
}

type fullDisk struct{ left int }

func (d *fullDisk) Write(p []byte) (int, error) {
	if d.left--; d.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

var errFull = errors.New("no space left")

func TestRecorderKeepsItsFirstError(t *testing.T) {
	r := NewRecorder(&fullDisk{left: 1}, "one")
	r.Note("fits")
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	r.Note("does not")
	if err := r.Err(); !errors.Is(err, errFull) || !strings.Contains(err.Error(), "one") {
		t.Errorf("got %v", err)
	}
}

const asClock = "HOLDFAST_LOCKHISTORY_CLOCK"

// TestProcessesShareOneClock compares with a process that starts later. A clock that counts from
// the start of a process would differ.
func TestProcessesShareOneClock(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), asClock+"=1")
	times := []int64{Now()}
	output, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	events, err := Read(bytes.NewReader(output))
	if err != nil || len(events) != 1 {
		t.Fatalf("%q: got %d events (%v), want 1", output, len(events), err)
	}
	times = append(times, events[0].At, Now())
	if !slices.IsSorted(times) {
		t.Errorf("before, in the other process, after: %d", times)
	}
}
