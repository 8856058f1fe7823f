package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestObservabilityOfTheProgram checks that a run's spans are at the provider of the program, in
// the trace with the id of the run and with the handler's own span. Its metrics are in the registry
// of the program until Run returns.
func TestObservabilityOfTheProgram(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))
	registry := prometheus.NewRegistry()
	ended := make(chan jobs.Event, 16)
	type none struct{}
	open := func() (*holdfast.Replica, error) {
		replica, err := holdfast.New(
			holdfast.WithSQLite(sqlite.Driver, filepath.Join(t.TempDir(), "test.db")),
			holdfast.WithReplicaName("a"), holdfast.WithLog(zerolog.Nop(), nil),
			holdfast.WithTracerProvider(provider), holdfast.WithRegisterer(registry),
			holdfast.WithListeners(func(_ context.Context, e jobs.Event) { ended <- e }),
			holdfast.WithJobs(holdfast.Job[none]{Name: "hello", OnlyTriggered: true, NoTables: true,
				Run: func(ctx context.Context, _ *jobs.Run, _ none) error {
					_, span := trace.SpanFromContext(ctx).TracerProvider().Tracer("own").
						Start(ctx, "greeting")
					span.End()
					return nil
				}}))
		if err != nil {
			return nil, err
		}
		return replica, replica.Open(t.Context())
	}
	replica, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(); !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
		t.Errorf("a second replica at the registerer: %v", err)
	}
	stop := running(replica)
	run, err := triggerWhenKnown(t, replica)
	if err != nil {
		t.Fatal(err)
	}
	for e := range ended {
		if e.Kind == jobs.EventFinished {
			break
		}
	}
	if !registered(t, registry, "holdfast_runs_total") || registered(t, registry, "go_goroutines") {
		t.Error("the registry has not exactly the metrics of Holdfast")
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if registered(t, registry, "holdfast_runs_total") {
		t.Error("the registry has metrics of a replica that has stopped")
	}
	checkSpans(t, spans, run)
}

func checkSpans(t *testing.T, spans *tracetest.SpanRecorder, run storage.Record) {
	t.Helper()
	var names []string
	for _, span := range spans.Ended() {
		names = append(names, span.Name())
		if id := span.SpanContext().TraceID(); id != trace.TraceID(run.ID) {
			t.Errorf("span %s is in trace %s, want that of run %s", span.Name(), id, run.ID)
		}
	}
	if !slices.Contains(names, "greeting") || len(names) < 3 {
		t.Errorf("spans are %q, want those of the run and of its handler", names)
	}
}

// registered reports whether a registry has a metric.
func registered(t *testing.T, registry *prometheus.Registry, name string) bool {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return true
		}
	}
	return false
}

// TestHandlerThatNeedsPostgres is refused at start with SQLite, with all jobs that have it.
func TestHandlerThatNeedsPostgres(t *testing.T) {
	job := func(name string) holdfast.AnyJob {
		return holdfast.Job[struct{}]{Name: name, OnlyTriggered: true, NoTables: true,
			NeedsPostgres: true,
			Run:           func(context.Context, *jobs.Run, struct{}) error { return nil }}
	}
	_, err := holdfast.New(
		holdfast.WithSQLite(sqlite.Driver, filepath.Join(t.TempDir(), "test.db")),
		holdfast.WithJobs(job("first"), job("second")))
	if !errors.Is(err, holdfast.ErrNoPostgres) ||
		!strings.Contains(err.Error(), `job "first": handler "first" needs PostgreSQL`) ||
		!strings.Contains(err.Error(), `job "second"`) {
		t.Errorf("got %v", err)
	}
	if _, err := holdfast.New(holdfast.WithPostgres("postgres://h/d"),
		holdfast.WithJobs(job("first"))); err != nil {
		t.Errorf("with PostgreSQL: %v", err)
	}
}

// TestLaterJobThatNeedsPostgres is refused in a reload, and when it is added.
func TestLaterJobThatNeedsPostgres(t *testing.T) {
	work := jobs.Handle("work", func(context.Context, *jobs.Run, struct{}) error { return nil }).
		NeedsPostgres()
	file := filepath.ToSlash(filepath.Join(t.TempDir(), "test.db"))
	config := func(jobs string) (*configs.Config, error) {
		return configs.Parse("holdfast.yaml", fmt.Appendf(nil,
			"database: {url: 'sqlite://%s'}\nadmin: {listen: ''}\n%s", file, jobs))
	}
	first, err := config("")
	if err != nil {
		t.Fatal(err)
	}
	replica, err := holdfast.New(holdfast.WithDriver(sqlite.Driver), holdfast.WithConfig(first),
		holdfast.WithHandlers(work), holdfast.WithLog(zerolog.Nop(), nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := replica.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer replica.Close()
	err = replica.Reload(func() (*configs.Config, error) {
		return config("jobs: [{name: later, handler: work}]")
	})
	if !errors.Is(err, holdfast.ErrNoPostgres) || !strings.Contains(err.Error(), `job "later"`) {
		t.Errorf("reload: got %v, want ErrNoPostgres for job later", err)
	}
	_, err = replica.PutJob(t.Context(), storage.Action{Actor: "ann", Via: "go"},
		holdfast.Job[struct{}]{Name: "added", Handler: "work", OnlyTriggered: true, NoTables: true},
		operations.AnyVersion)
	if refused := (*operations.SpecError)(nil); !errors.As(err, &refused) ||
		len(refused.Problems) != 1 || refused.Problems[0].Key != "handler" ||
		!strings.Contains(err.Error(), `found "work", which needs PostgreSQL`) {
		t.Errorf("put job: got %v, want a mistake in its handler", err)
	}
}
