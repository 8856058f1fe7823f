package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestRunAfterAFailedOpen checks that Run opens the replica again after a failed Open, which closed
// the parts that it had made.
func TestRunAfterAFailedOpen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := taken.Addr().String()
	config, err := configs.Parse("holdfast.yaml", []byte(`
database: {url: "sqlite://`+filepath.ToSlash(filepath.Join(t.TempDir(), "test.db"))+`"}
replica: {name: a}
admin: {listen: "`+address+`"}
jobs: [{name: hello, handler: greet}]
`))
	if err != nil {
		t.Fatal(err)
	}
	greeted := make(chan struct{}, 1)
	greet := jobs.Handle("greet", func(context.Context, *jobs.Run, struct{}) error {
		greeted <- struct{}{}
		return nil
	})
	replica, err := holdfast.New(holdfast.WithDriver(sqlite.Driver),
		holdfast.WithConfig(config), holdfast.WithHandlers(greet),
		holdfast.WithAdmin(admin.Page),
		holdfast.WithLog(zerolog.New(os.Stderr), nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := replica.Open(t.Context()); err == nil {
		t.Fatal("Open succeeded on an address in use")
	}
	if err := replica.Run(t.Context()); err == nil {
		t.Fatal("Run succeeded on an address in use")
	}
	if err := replica.Health(); !errors.Is(err, holdfast.ErrStopped) {
		t.Errorf("after a failed Run, Health is %v, want %v", err, holdfast.ErrStopped)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	if err := replica.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop := running(replica)
	defer func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
		if err := replica.Run(context.Background()); !errors.Is(err, holdfast.ErrHasRun) {
			t.Errorf("a second Run: got %v, want %v", err, holdfast.ErrHasRun)
		}
	}()
	if _, err := triggerWhenKnown(t, replica); err != nil {
		t.Fatal(err)
	}
	<-greeted
	if err := replica.Health(); err != nil {
		t.Errorf("while a later Run runs, Health is %v", err)
	}
}

// TestOperationsWithoutRun opens a replica for one action, as a command line of a program does. The
// job is in the store because a replica ran before.
func TestOperationsWithoutRun(t *testing.T) {
	dir := t.TempDir()
	first, err := openReplica(dir)
	if err != nil {
		t.Fatal(err)
	}
	stop := running(first)
	if _, err := triggerWhenKnown(t, first); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // Close ends what the next Open needs
		second, err := openReplica(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := triggerWhenKnown(t, second); err != nil {
			t.Errorf("trigger without Run: %v", err)
		}
		second.Close()
		if second.Operations() != nil {
			t.Error("a closed replica has operations")
		}
	}
}

// TestChangedConfigurationIsChecked checks that New finds a mistake in a field that the program has
// changed after Parse.
func TestChangedConfigurationIsChecked(t *testing.T) {
	config, err := configs.Parse("holdfast.yaml", []byte("replica: {name: a}\n"))
	if err != nil {
		t.Fatal(err)
	}
	config.Workers = -1
	if _, err := holdfast.New(holdfast.WithDriver(sqlite.Driver),
		holdfast.WithConfig(config)); err == nil ||
		!strings.Contains(err.Error(), "workers: found -1") {
		t.Errorf("got %v, want the mistake in workers", err)
	}
}

// TestReloadedJobsAreThereAfterClose opens a replica again that was closed after a reload, and runs
// it. It has the jobs of the reload.
func TestReloadedJobsAreThereAfterClose(t *testing.T) {
	file := filepath.ToSlash(filepath.Join(t.TempDir(), "test.db"))
	config := func(list string) *configs.Config {
		c, err := configs.Parse("holdfast.yaml", fmt.Appendf(nil, `
database: {url: "sqlite://%s"}
replica: {name: a}
admin: {listen: ""}
jobs: [%s]
`, file, list))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ran := make(chan string, 1)
	replica, err := holdfast.New(
		holdfast.WithDriver(sqlite.Driver),
		holdfast.WithConfig(config(`{name: first, handler: work, schedule: "0 2 * * *"}`)),
		holdfast.WithHandlers(jobs.Handle("work",
			func(_ context.Context, run *jobs.Run, _ struct{}) error {
				select {
				case ran <- run.Job:
				default:
				}
				return nil
			})), holdfast.WithLog(zerolog.Nop(), nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := replica.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	operations := replica.Operations()
	if err := replica.Reload(func() (*configs.Config, error) {
		return config(`{name: second, handler: work, schedule: "* * * * * *"}`), nil
	}); err != nil {
		t.Fatal(err)
	}
	replica.Close()
	if _, err := operations.Trigger(t.Context(), storage.Action{Actor: "ann", Via: "go"},
		storage.TriggerRequest{Job: "second"}); err == nil {
		t.Error("a trigger succeeded after Close")
	}
	stop := running(replica)
	defer func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}()
	select {
	case job := <-ran:
		if job != "second" {
			t.Errorf("job %s ran, want second", job)
		}
	case <-time.After(20 * time.Second):
		t.Error("the job of the reload did not run")
	}
}

// TestProbesWhileRunOpens calls the methods that probes and requests use while Run opens the
// replica. The race detector checks the rest.
func TestProbesWhileRunOpens(t *testing.T) {
	config, err := configs.Parse("holdfast.yaml", []byte(`
database: {url: "sqlite://`+filepath.ToSlash(filepath.Join(t.TempDir(), "test.db"))+`"}
replica: {name: a}
admin: {listen: "127.0.0.1:0"}
jobs: [{name: hello, handler: greet}]
`))
	if err != nil {
		t.Fatal(err)
	}
	greet := jobs.Handle("greet", func(context.Context, *jobs.Run, struct{}) error { return nil })
	replica, err := holdfast.New(holdfast.WithDriver(sqlite.Driver),
		holdfast.WithConfig(config), holdfast.WithHandlers(greet),
		holdfast.WithAdmin(admin.Page),
		holdfast.WithLog(zerolog.Nop(), nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := replica.Ready(t.Context()); err == nil {
		t.Error("a replica that is not open is ready")
	}
	stop := running(replica)
	defer func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}()
	for t.Context().Err() == nil {
		ready := replica.Ready(t.Context()) == nil
		if ready && replica.AdminAddr() == "" {
			t.Error("address of the page of a ready replica: got none")
		}
		if ready && replica.Operations() != nil {
			return
		}
		runtime.Gosched()
	}
	t.Error("replica never became ready")
}

// TestOpenTwice checks that a second Open does nothing, and that the replica still runs after it.
func TestOpenTwice(t *testing.T) {
	replica, err := holdfast.New(
		holdfast.WithSQLite(sqlite.Driver, filepath.Join(t.TempDir(), "twice.db")),
		holdfast.WithLog(zerolog.Nop(), nil))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := replica.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- replica.Run(ctx) }()
	for replica.Ready(t.Context()) != nil {
		select {
		case err := <-done:
			t.Fatalf("Run has ended: %v", err)
		default:
			runtime.Gosched()
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := replica.Open(t.Context()); !errors.Is(err, holdfast.ErrHasRun) {
		t.Errorf("Open after Run: got %v, want %v", err, holdfast.ErrHasRun)
	}
	same := func() (*configs.Config, error) {
		config := configs.Defaults()
		return &config, nil
	}
	if err := replica.Reload(same); !errors.Is(err, holdfast.ErrStopped) {
		t.Errorf("Reload after Run: got %v, want %v", err, holdfast.ErrStopped)
	}
}

// TestReloadRefusesNothing reloads no configuration, and a file that the program has not named.
func TestReloadRefusesNothing(t *testing.T) {
	replica, err := holdfast.New(
		holdfast.WithSQLite(sqlite.Driver, filepath.Join(t.TempDir(), "none.db")),
		holdfast.WithLog(zerolog.Nop(), nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := replica.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer replica.Close()
	err = replica.Reload(func() (*configs.Config, error) { return nil, nil })
	if err == nil || !strings.Contains(err.Error(), "found nil, expected a configuration") {
		t.Errorf("nil: got %v", err)
	}
	err = replica.ReloadFile()
	if err == nil || !strings.Contains(err.Error(), "found no WithConfigFile") {
		t.Errorf("no file: got %v", err)
	}
}
