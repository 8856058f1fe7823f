package holdfast

import (
	"context"
	"fmt"
	"os"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/operations"
)

// ErrNotOpen is the error of a method that needs an open Replica.
var ErrNotOpen = app.ErrNotOpen

// Version returns the version of the module that the binary was built from.
func Version() string { return app.Version() }

// Main is the command line of cmd/scheduler with the program's own handlers
// added to the built-in ones. It exits the process: with 0, or with 1 after one
// line on standard error that says what is wrong.
//
// The first SIGINT or SIGTERM stops the replica gracefully. A second one ends the
// process at once.
func Main(handlers ...jobs.Registration) {
	err := cli.Execute(cli.UntilSignal(), os.Args[1:], os.Stdout, os.Stderr, handlers)
	if err != nil {
		fmt.Fprintln(os.Stderr, "scheduler:", err)
		os.Exit(1)
	}
}

// Replica is one process's part of a cluster: scheduler, locks, store and page.
// It runs once. Its methods may be called concurrently, except Open.
type Replica struct {
	app *app.Replica
}

// New checks the configuration against the handlers and returns a replica. It
// opens and starts nothing.
//
// It returns configs.ErrNotRead for a configuration that configs.Load or
// configs.Parse did not return, or whose jobs were changed since.
func New(config *configs.Config, options ...Option) (*Replica, error) {
	var o app.Options
	for _, option := range options {
		option(&o)
	}
	replica, err := app.New(config, o)
	if err != nil {
		return nil, err
	}
	return &Replica{replica}, nil
}

// Open connects to the store, makes the locks and listens on the page's address,
// so that a mistake in any of them is an error at start. After an error it may be
// called again.
func (r *Replica) Open(ctx context.Context) error { return r.app.Open(ctx) }

// Run fires jobs and serves the page until ctx ends, then stops gracefully: it
// starts nothing more, waits for its runs as long as the configured grace,
// cancels the others, and releases its locks and its session. It serves the page
// until the last run has ended. It calls Open if that was not done.
func (r *Replica) Run(ctx context.Context) error { return r.app.Run(ctx) }

// Ready returns nil if the replica can start runs now, else the reason why not.
func (r *Replica) Ready(ctx context.Context) error { return r.app.Ready(ctx) }

// AdminAddr returns the page's address, host:port, once Open has succeeded. It
// returns "" if the configuration has no page.
func (r *Replica) AdminAddr() string { return r.app.AdminAddr() }

// Operations returns the actions of operators, once Open has succeeded; nil
// before. They may be used whether or not the replica runs.
func (r *Replica) Operations() *operations.Operations { return r.app.Operations() }

// Reload loads the configuration again and applies what may change while the
// replica runs: jobs, calendars and groups, who may use the page, and the level
// of the log. It logs the keys that need a restart. Runs under way are not
// affected.
//
// If load returns an error, or the configuration is refused, nothing changes.
// The error is returned, counted in the metrics, and logged with file, line and
// column of each mistake. Before Open it returns [ErrNotOpen].
func (r *Replica) Reload(load func() (*configs.Config, error)) error { return r.app.Reload(load) }
