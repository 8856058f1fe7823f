package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// openReplica opens a replica with the handler greet, the job hello, and its database in dir.
func openReplica(dir string) (*holdfast.Replica, error) {
	config, err := configs.Parse("holdfast.yaml", []byte(`
database: {url: "sqlite://`+filepath.ToSlash(filepath.Join(dir, "example.db"))+`"}
default_schema: warehouse
added_jobs: {allowed_env: [NAME]}
admin: {listen: ""}
jobs:
  - {name: hello, handler: greet, params: {name: world}}
`))
	if err != nil {
		return nil, err
	}
	type greeting struct {
		Name string `json:"name"`
	}
	greet := jobs.Handle("greet", func(_ context.Context, _ *jobs.Run, p greeting) error {
		return nil
	})
	replica, err := holdfast.New(holdfast.WithDriver(sqlite.Driver),
		holdfast.WithConfig(config), holdfast.WithHandlers(greet),
		holdfast.WithLog(zerolog.Nop(), nil))
	if err != nil {
		return nil, err
	}
	return replica, replica.Open(context.Background())
}

// running runs a replica until the returned function is called.
func running(replica *holdfast.Replica) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- replica.Run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

func ExampleReplica_Operations() {
	dir, err := os.MkdirTemp("", "holdfast-example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	replica, err := openReplica(dir)
	if err != nil {
		panic(err)
	}
	stop := running(replica)
	ctx, ops := context.Background(), replica.Operations()
	for replica.Ready(ctx) != nil { // a ready replica has stored its jobs
		time.Sleep(10 * time.Millisecond)
	}
	anna := storage.Action{Actor: "anna", Reason: "for the example"}

	// The handler's type refuses params before they reach the store.
	_, err = ops.Trigger(ctx, anna,
		storage.TriggerRequest{Job: "hello", Params: []byte(`{"nane": "Bob"}`)})
	fmt.Println(err)

	// PutJob takes a job as in a configuration. To change the job, pass its version.
	job := "name: hello-again\nhandler: greet\ntables: [greetings]\nparams: {name: again}\n"
	spec, err := ops.PutJob(ctx, anna, []byte(job), 0)
	fmt.Println(spec.Job, "has version", spec.Version, err)
	_, err = ops.PutJob(ctx, anna, []byte(job), 0)
	fmt.Println("a second time it is a conflict:", errors.Is(err, storage.ErrConflict))

	pause, err := ops.Pause(ctx, anna, storage.Target{Kind: storage.TargetAll})
	fmt.Println(pause.Target, "is paused by", pause.By, err)

	lines, err := ops.Audit(ctx, storage.AuditFilter{})
	for _, line := range lines {
		fmt.Println(line.Actor, line.Action, line.Target, err)
	}
	fmt.Println(stop())
	// Output:
	// params: nane: unknown key "nane", expected one of name
	// hello-again has version 1 <nil>
	// a second time it is a conflict: true
	// everything is paused by anna <nil>
	// anna pause everything <nil>
	// anna put_job job hello-again <nil>
	// <nil>
}

// TestAddedJobIsStoredComplete checks that the stored job has all defaults of the replica that
// added it, because other replicas may have other defaults.
func TestAddedJobIsStoredComplete(t *testing.T) {
	replica, err := openReplica(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	stop := running(replica)
	defer func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}()
	text := `{name: a, handler: greet, tables: [t], schedule: "@daily",
		params: {name: "${NAME:-x}"}}`
	spec, err := replica.Operations().PutJob(t.Context(), storage.Action{}, []byte(text), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"warehouse.t", `"timezone"`, `"misfire_threshold"`,
		`"${NAME:-x}"`} {
		if !strings.Contains(string(spec.Text), want) {
			t.Errorf("stored without %s: %s", want, spec.Text)
		}
	}
	lines, err := replica.Operations().Audit(t.Context(), storage.AuditFilter{})
	if err != nil || len(lines) != 1 || lines[0].Actor != "program" || lines[0].Via != "go" ||
		lines[0].Replica == "" {
		t.Errorf("audit: %+v, %v", lines, err)
	}
}

func TestJobsThatCannotBeAdded(t *testing.T) {
	replica, err := openReplica(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	stop := running(replica)
	defer func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}()
	ops := replica.Operations()
	if _, err := ops.PutJob(t.Context(), storage.Action{},
		[]byte(`{name: daily, handler: greet, schedule: "@daily"}`), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := ops.PutJob(t.Context(), storage.Action{},
		[]byte(`{name: then, handler: greet, schedule: {after: [daily]}}`), 0); err != nil {
		t.Errorf("a dependent of an added job: %v", err)
	}
	for text, want := range map[string]string{
		`{name: a, handler: graet}`:                                         `handler: unknown handler "graet"; did you mean "greet"?`,
		`{name: a, handler: greet, schedule: {after: [dialy]}}`:             `schedule.after[0]: unknown job "dialy"; did you mean "daily"?`,
		`{name: a, handler: greet, schedule: {after: [hello]}}`:             `only triggered`,
		`{name: a, handler: greet, params: {nane: x}, schedule: "* * * *"}`: `params.nane: unknown key`,
		`{name: hello, handler: greet}`:                                     `job comes from the configuration file`,
	} {
		_, err := ops.PutJob(t.Context(), storage.Action{}, []byte(text), 0)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	changes := map[string]string{
		`{name: daily, handler: greet, schedule: {after: [then]}}`: `cycle`,
		`{name: then, handler: greet, schedule: {after: [then]}}`:  `itself`,
		`{name: daily, handler: greet}`:                            `schedule: found no schedule, expected one: then depends on this job`,
	}
	for text, want := range changes {
		_, err := ops.PutJob(t.Context(), storage.Action{}, []byte(text), operations.AnyVersion)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	if err := ops.RemoveJob(t.Context(), storage.Action{}, "hello",
		operations.AnyVersion); !errors.Is(err, storage.ErrFromConfig) {
		t.Errorf("removal of a configured job: %v", err)
	}
	long := storage.Action{Reason: strings.Repeat("x", storage.MaxReasonBytes+1)}
	if _, err := ops.Pause(t.Context(), long,
		storage.Target{Kind: storage.TargetAll}); !errors.Is(err, storage.ErrBadInput) {
		t.Errorf("a reason that is too long: %v", err)
	}
}

// TestAddedJobWithDependentsIsNotRemoved removes jobs before and after their dependents.
func TestAddedJobWithDependentsIsNotRemoved(t *testing.T) {
	replica, err := openReplica(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	stop := running(replica)
	defer func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}()
	ops := replica.Operations()
	for _, text := range []string{
		`{name: daily, handler: greet, schedule: "@daily"}`,
		`{name: then, handler: greet, schedule: {after: [daily]}}`,
		`{name: last, handler: greet, schedule: {after: [daily, then]}}`,
	} {
		if _, err := ops.PutJob(t.Context(), storage.Action{}, []byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"daily": "last and then would never be due again",
		"then": "last would never be due again"} {
		err := ops.RemoveJob(t.Context(), storage.Action{}, name, 1)
		if !errors.Is(err, storage.ErrHasDependents) || !errors.Is(err, storage.ErrConflict) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("removal of %s: got %v, want %s", name, err, want)
		}
	}
	for _, name := range []string{"last", "then", "daily"} {
		if err := ops.RemoveJob(t.Context(), storage.Action{}, name, 1); err != nil {
			t.Errorf("removal of %s without dependents: %v", name, err)
		}
	}
}

// TestTriggerTxNeedsPostgres checks that a trigger in a transaction is refused where there is none.
func TestTriggerTxNeedsPostgres(t *testing.T) {
	request := holdfast.Trigger[any]{Job: "hello"}
	replica, err := holdfast.New(
		holdfast.WithSQLite(sqlite.Driver, filepath.Join(t.TempDir(), "test.db")),
		holdfast.WithLog(zerolog.Nop(), nil))
	if err != nil {
		t.Fatal(err)
	}
	refused := func(when string, r *holdfast.Replica, want error) {
		t.Helper()
		if _, err := r.TriggerTx(t.Context(), nil, request); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", when, err, want)
		}
		if _, err := r.TriggerSQLTx(t.Context(), nil, request); !errors.Is(err, want) {
			t.Errorf("%s, with database/sql: got %v, want %v", when, err, want)
		}
	}
	refused("before Open", replica, holdfast.ErrNotOpen)
	opened, err := openReplica(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	refused("with SQLite", opened, holdfast.ErrNoPostgres)
	if err := running(opened)(); err != nil {
		t.Error(err)
	}
}
