package cli

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestTriggerWithoutAReplica triggers a job while its only replica is draining.
func TestTriggerWithoutAReplica(t *testing.T) {
	config := explainedStore(t)
	if o := perform(t, nil, "trigger", "nightly", "-c", config); o.code != 0 || o.notes != "" ||
		!strings.Contains(o.out, "  nothing\n") {
		t.Errorf("with a live replica, got %+v", o)
	}
	runs(t, config, "drain", "a")
	const note = `^scheduler: note: no replica can start runs; run \S+ waits until one can\n$`
	o := perform(t, nil, "trigger", "nightly", "--wait-for", "1s", "-c", config)
	if noted, _ := regexp.MatchString(note, o.notes); o.code != 0 || !noted ||
		!strings.Contains(o.out, "  a replica that can start runs\n") {
		t.Errorf("with a drained replica, got %+v", o)
	}
	if o := perform(t, nil, "trigger", "nightly", "--delay", "2h", "-c", config); o.code != 0 ||
		o.notes != "" || !strings.Contains(o.out, "  start at ") {
		t.Errorf("for a later time, got %+v", o)
	}
	const refused = "trigger: job nightly cannot run now (busy): no replica can start runs"
	if o := perform(t, nil, "trigger", "nightly", "--wait-for", "0", "-c", config); o.code != 1 ||
		o.err != refused {
		t.Errorf("got %+v, want %q", o, refused)
	}
	const short = "found 1ms, expected 0, or 1s and more (wait is the value of --wait-for)"
	if o := perform(t, nil, "trigger", "nightly", "--wait-for", "1ms", "-c",
		config); o.code != 1 || !strings.HasSuffix(o.err, short) {
		t.Errorf("got %+v, want %q", o, short)
	}
	var out strings.Builder
	noted := notedWriter{make(chan string, 1)}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	c := &commandLine{out: &out, getenv: noEnvironment}
	go func() {
		done <- c.execute(ctx, []string{"trigger", "nightly", "--wait", "-c", config}, noted)
	}()
	select {
	case text := <-noted.written:
		if matched, _ := regexp.MatchString(note, text); !matched {
			t.Errorf("with --wait, got the note %q", text)
		}
	case err := <-done:
		t.Fatalf("with --wait, the command ended: %v", err)
	}
	stop()
	<-done
}

// TestTriggerOfAJobThatNoReplicaHas triggers a job that the live replica has dropped.
func TestTriggerOfAJobThatNoReplicaHas(t *testing.T) {
	config := explainedStore(t)
	store := openStore(t, config, true)
	session := uuid.New()
	if err := store.Open(t.Context(), storage.Session{ID: session, Replica: "b",
		TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Register(t.Context(), session, []storage.Definition{{Name: "nightly",
		Hash: "h", Schedule: "30 2 * * *", Zone: "Europe/Berlin"}}); err != nil {
		t.Fatal(err)
	}
	if err := store.Withdraw(t.Context(), session, "other table",
		[]string{"nightly"}); err != nil {
		t.Fatal(err)
	}
	store.Close()
	const note = `^scheduler: note: no live replica has job nightly; run \S+ waits until one has it\n$`
	o := perform(t, nil, "trigger", "nightly", "-c", config)
	if noted, _ := regexp.MatchString(note, o.notes); o.code != 0 || !noted ||
		!strings.Contains(o.out, "  a replica that has the job\n") {
		t.Errorf("got %+v", o)
	}
	const refused = "trigger: job nightly cannot run now (busy): no live replica has the job"
	if o := perform(t, nil, "trigger", "nightly", "--wait-for", "0", "-c", config); o.code != 1 ||
		o.err != refused {
		t.Errorf("got %+v, want %q", o, refused)
	}
}

// notedWriter sends the first text that is written.
type notedWriter struct{ written chan string }

func (w notedWriter) Write(text []byte) (int, error) {
	select {
	case w.written <- string(text):
	default:
	}
	return len(text), nil
}
