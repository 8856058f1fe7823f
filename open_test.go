package holdfast_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs"
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
	replica, err := holdfast.New(holdfast.WithConfig(config), holdfast.WithHandlers(greet),
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
	if _, err := holdfast.New(holdfast.WithConfig(config)); err == nil ||
		!strings.Contains(err.Error(), "workers: found -1") {
		t.Errorf("got %v, want the mistake in workers", err)
	}
}
