package holdfast_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/internal/test/collectortest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/otlp"
)

// observedConfig returns the configuration of a replica with a job without a schedule. Keys are
// appended to it.
func observedConfig(t *testing.T, keys string) *configs.Config {
	t.Helper()
	config, err := configs.Parse("holdfast.yaml", []byte(`
database: {url: "sqlite://`+filepath.ToSlash(filepath.Join(t.TempDir(), "test.db"))+`"}
replica: {name: replica-a}
admin: {listen: "127.0.0.1:0"}
jobs: [{name: hello, handler: greet, tables: [orders], retry: {attempts: 2, delay: 10ms}}]
`+keys))
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// observed runs a replica and triggers its job, whose first attempt fails with a text that is not
// valid UTF-8. It returns the address of the page, the run and the log after the run has ended.
func observed(t *testing.T, keys string) (page string, run storage.Record, log *bytes.Buffer,
	stop func() error) {
	t.Helper()
	ended := make(chan jobs.Event, 16)
	greet := jobs.Handle("greet", func(ctx context.Context, run *jobs.Run, _ struct{}) error {
		_, span := trace.SpanFromContext(ctx).TracerProvider().Tracer("own").Start(ctx, "greeting")
		defer span.End()
		run.Log().Info().Msg("hello")
		if err := run.InTx(ctx, func(jobs.Tx) error { return nil }); err != nil {
			t.Errorf("fenced transaction: got %v, want nil", err)
		}
		if run.Attempt == 1 {
			return errors.New("no\xff luck")
		}
		return nil
	})
	log = &bytes.Buffer{}
	out := zerolog.SyncWriter(log)
	replica, err := holdfast.New(holdfast.WithDriver(sqlite.Driver),
		holdfast.WithConfig(observedConfig(t, keys)), holdfast.WithAdmin(admin.Page),
		holdfast.WithHandlers(greet), holdfast.WithLog(zerolog.New(out), out),
		holdfast.WithTracing(otlp.Exporter),
		holdfast.WithListeners(func(_ context.Context, e jobs.Event) { ended <- e }))
	if err != nil {
		t.Fatal(err)
	}
	if err := replica.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop = running(replica)
	triggered, err := triggerWhenKnown(t, replica)
	if err != nil {
		t.Fatal(err)
	}
	for e := range ended {
		if e.Kind == jobs.EventFinished {
			break
		}
	}
	return "http://" + replica.AdminAddr(), triggered, log, stop
}

// triggerWhenKnown triggers the job as soon as it is in the store.
func triggerWhenKnown(t *testing.T, replica *holdfast.Replica) (run storage.Record, err error) {
	t.Helper()
	for range 1000 {
		var answer storage.Triggered
		answer, err = replica.Operations().
			Trigger(t.Context(), storage.Action{Actor: "ann", Via: "go"},
				storage.TriggerRequest{Job: "hello"})
		if !errors.Is(err, storage.ErrNotFound) {
			return answer.Record, err
		}
		time.Sleep(10 * time.Millisecond) // there is no event to wait for
	}
	return run, err
}

// ask returns the body of a page.
func ask(t *testing.T, address string) string {
	t.Helper()
	reply, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(reply.Body)
	if err != nil || reply.StatusCode != http.StatusOK {
		t.Fatalf("%s: got %d %s %v, want 200", address, reply.StatusCode, body, err)
	}
	return string(body)
}

// TestRunIsTraced checks that the trace of a run is in the collector, on the page and in the log,
// and that the metrics count the run.
func TestRunIsTraced(t *testing.T) {
	c := collectortest.New(t)
	page, run, log, stop := observed(t,
		"tracing: {endpoint: '"+c.URL+"', link: 'https://tempo.example.com/{trace_id}'}\n")
	id := engine.TraceID(run.ID)

	var shown struct {
		TraceID string `json:"trace_id"`
		State   jobs.State
	}
	if err := json.Unmarshal([]byte(ask(t, page+"/api/v1/runs/"+run.ID.String())),
		&shown); err != nil || shown.TraceID != id || shown.State != jobs.Succeeded {
		t.Errorf("the API shows %+v, %v", shown, err)
	}
	if body := ask(t, page+"/runs/"+run.ID.String()); !strings.Contains(body,
		`href="https://tempo.example.com/`+id+`"`) {
		t.Errorf("got a page without a link to the trace %s:\n%s", id, body)
	}
	scraped := ask(t, page+"/metrics")
	for _, line := range []string{
		`holdfast_firings_total{job="hello",kind="adopted"} 1`,
		`holdfast_attempts_total{job="hello"} 2`, `holdfast_retries_total{job="hello"} 1`,
		`holdfast_runs_total{job="hello",state="succeeded"} 1`,
		`holdfast_runs_total{job="hello",state="failed"} 0`,
		`holdfast_start_delay_seconds_count{job="hello"} 1`,
		`holdfast_grants_total{mode="exclusive",resource="public/orders"} 2`,
		`holdfast_lock_hold_seconds_count{resource="public/orders"} 2`,
		`holdfast_starts_total{outcome="granted"} 2`, `holdfast_ready 1`, `holdfast_session 1`,
		`holdfast_jobs 1`, `holdfast_sessions_opened_total 1`,
		`holdfast_store_duration_seconds_count{operation="start"} 2`, `holdfast_workers 100`,
		`holdfast_trace_spans_total{result="failed"} 0`,
	} {
		if !strings.Contains(scraped, line+"\n") {
			t.Errorf("the metrics lack %s", line)
		}
	}
	if strings.Contains(scraped, run.ID.String()) || strings.Contains(scraped, "luck") {
		t.Errorf("got the id %s or the error of a run in the metrics:\n%s", run.ID, scraped)
	}
	start := time.Now()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("stopping took %s", took)
	}
	checkTree(t, c.Spans(), id)
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, run.ID.String()) &&
			(strings.Contains(line, `"message":"hello"`) || strings.Contains(line, "run ended")) &&
			!strings.Contains(line, `"trace_id":"`+id+`"`) {
			t.Errorf("a line without the trace: %s", line)
		}
	}
	if !strings.Contains(log.String(), id) {
		t.Errorf("the log does not contain the trace: %s", log)
	}
}

// checkTree checks that the trace of the run has the expected spans with the expected parents, and
// that exactly the spans of the failed attempt are marked as failed.
func checkTree(t *testing.T, spans []collectortest.Span, id string) {
	t.Helper()
	names := map[string]string{} // by span
	for _, s := range spans {
		names[s.ID] = s.Name
		if s.Trace != id {
			t.Errorf("%s is in trace %s, want %s", s.Name, s.Trace, id)
		}
		if s.Ended.Before(s.Began) {
			t.Errorf("%s ended before it began", s.Name)
		}
	}
	var got []string
	for _, s := range spans {
		got = append(got, names[s.Parent]+" > "+s.Name)
		failed := s.Name == "attempt 1" || s.Name == "handler" && names[s.Parent] == "attempt 1"
		if s.Failed != failed || failed &&
			(s.Words != "no\uFFFD luck" || len(s.Events) != 1 ||
				s.Events[0]["exception.message"] != s.Words) {
			t.Errorf("%s: failed %v, %q, %v", s.Name, s.Failed, s.Words, s.Events)
		}
		if s.Name == "run hello" &&
			(s.Marks["holdfast.state"] != "succeeded" ||
				s.Marks["holdfast.resources"] != "job:hello public/orders") {
			t.Errorf("the run's: %v", s.Marks)
		}
	}
	want := []string{
		" > run hello", "run hello > queue", "run hello > attempt 1", "attempt 1 > lock",
		"attempt 1 > start", "attempt 1 > handler", "handler > greeting", "attempt 1 > finish",
		"run hello > attempt 2", "attempt 2 > retry_wait", "attempt 2 > lock", "attempt 2 > start",
		"attempt 2 > handler", "handler > greeting", "attempt 2 > finish",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("spans:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestTracingIsOptional checks that a replica without tracing, or with sample 0, makes no spans and
// no requests, and that runs succeed while the collector is unreachable.
func TestTracingIsOptional(t *testing.T) {
	c := collectortest.New(t)
	for keys, traced := range map[string]bool{"": false,
		"tracing: {endpoint: '" + c.URL + "', sample: 0}": false,
		"tracing: {endpoint: 'http://127.0.0.1:1'}":       true} {
		page, run, log, stop := observed(t, keys+"\n")
		body := ask(t, page+"/api/v1/runs/"+run.ID.String())
		if !strings.Contains(body, `"succeeded"`) || strings.Contains(body, "trace_id") != traced {
			t.Errorf("%s: got run %s, want it succeeded, with a trace: %t", keys, body, traced)
		}
		start := time.Now()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s: stopping took %s", keys, took)
		}
		if strings.Contains(log.String(), "trace_id") != traced {
			t.Errorf("%s: the log has %s", keys, log)
		}
		if logged := strings.Count(log.String(),
			"spans could not be sent"); traced != (logged == 1) {
			t.Errorf("%s: %d lines about faults: %s", keys, logged, log)
		}
	}
	if n := c.Requests(); n != 0 {
		t.Errorf("got %d requests to the collector, want none", n)
	}
}
