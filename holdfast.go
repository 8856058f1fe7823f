package holdfast

import (
	"context"
	"errors"
	"net/http"

	"github.com/holdfast-dev/holdfast/admin/page"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/jobs/operations"
)

// Errors of a Replica. ErrNotOpen is for a method that needs an open Replica. ErrStopped is for a
// method that needs a Replica whose Run has not returned. ErrHasRun is for Run and Open after Run.
// ErrNoPostgres is for a method that needs PostgreSQL.
var (
	ErrNotOpen    = app.ErrNotOpen
	ErrStopped    = app.ErrStopped
	ErrHasRun     = app.ErrHasRun
	ErrNoPostgres = app.ErrNoPostgres
)

// Version returns the version of the module that the binary was built from.
func Version() string { return app.Version() }

// Replica is one process's part of a cluster: scheduler, locks, store and page. It runs once: a
// second Run returns ErrHasRun. Its methods may be called concurrently, also while Run opens the
// replica. But Open, Run and Close must not be called while another of them runs.
type Replica struct {
	app     *app.Replica
	options *options
}

// New checks the configuration, the jobs and the handlers together, and returns a replica. It opens
// and starts nothing. Mistakes in the configuration and in jobs are one *configs.Errors, with the
// file and line, or the job, of each. Mistakes in the options are other errors.
func New(given ...Option) (*Replica, error) { return newReplica(given) }

func newReplica(given []Option) (*Replica, error) {
	o := newOptions(given)
	if err := errors.Join(o.mistakes...); err != nil {
		return nil, err
	}
	if err := o.checkDatabase(); err != nil {
		return nil, err
	}
	config, err := o.load()
	if err != nil {
		return nil, err
	}
	if err := o.requireDatabase(); err != nil {
		return nil, err
	}
	program := o.Options
	if o.fromFile {
		program.Load = o.load // for reloads by the API
	}
	replica, err := app.New(config, program)
	if err != nil {
		return nil, err
	}
	return &Replica{replica, o}, nil
}

// Open connects to the store, makes the locks and listens on the page's address. So a mistake in
// any of them is an error at start. Open does not wait for the database: if the database does not
// answer, it returns an error at once that wraps storage.ErrUnavailable. After an error Open may be
// called again. Only the command run of package cli waits for the database. Open does nothing if
// the replica is open, and returns ErrHasRun after Run.
func (r *Replica) Open(ctx context.Context) error { return r.app.Open(ctx) }

// Run fires jobs and serves the page until ctx ends. Then it stops gracefully. It starts nothing
// more, and waits for its runs for at most the configured grace. It cancels the remaining runs, and
// releases its locks and its session. It serves the page until the last run has ended. It calls
// Open if that was not done, and returns its error. So a program that may start before its database
// first calls Open until the error does not wrap storage.ErrUnavailable.
func (r *Replica) Run(ctx context.Context) error { return r.app.Run(ctx) }

// Close closes what Open has made, for a program that uses Operations and does not call Run. Open
// may be called again. Close must not be called while Run runs. Run closes everything itself, and
// Close does nothing after it.
func (r *Replica) Close() { r.app.Close() }

// Admin returns the admin page and its API as a handler for the program's own server:
//
//	page, err := replica.Admin(admin.At("/holdfast/"), admin.Authenticate(sessionUser))
//	…
//	mux.Handle("/holdfast/", page)
//
// It needs at least one option of package admin, which has the page. It may be called before Open.
// The page answers 503 until Open has succeeded, and after Run has returned. It needs users: those
// of admin.Authenticate, or of the configuration. Roles, host names and the trusted proxy come from
// the configuration, even if it has no address for a page (admin.listen). With admin.Authenticate
// the page answers to all host names, and the program must check them. Errors about options wrap
// admin.ErrOptions.
func (r *Replica) Admin(options ...page.Option) (http.Handler, error) {
	return r.app.Admin(options...)
}

// Health is for a probe that restarts the process. It returns nil before Run and while Run runs.
// After Run has returned, it returns an error that wraps ErrStopped, and the error of Run if there
// is one. A replica that has lost its database is healthy, but not ready: see [Replica.Ready].
func (r *Replica) Health() error { return r.app.Health() }

// Ready returns nil if the replica can start runs now, else the reason why not.
func (r *Replica) Ready(ctx context.Context) error { return r.app.Ready(ctx) }

// AdminAddr returns the page's address, host:port, once Open has succeeded. It
// returns "" if the configuration has no page.
func (r *Replica) AdminAddr() string { return r.app.AdminAddr() }

// Operations returns the actions of operators, once Open has succeeded. Before, there is no
// connection to the store, and it returns nil. They may be used whether or not the replica runs,
// until Run has returned.
func (r *Replica) Operations() *operations.Operations { return r.app.Operations() }

// Reload loads the configuration and adds the program's jobs. It applies the keys that may change
// while the replica runs, such as jobs, calendars, groups, the users of the page, and the level of
// the log. It logs the other changed keys, which need a restart. Runs under way are not affected.
//
// If load returns an error, or the configuration is refused, nothing changes.
// The error is returned, counted in the metrics, and logged with file, line and
// column of each mistake. Before Open it returns [ErrNotOpen], and after Run [ErrStopped].
func (r *Replica) Reload(load func() (*configs.Config, error)) error {
	return r.app.Reload(func() (*configs.Config, error) {
		config, err := load()
		if err != nil {
			return nil, err
		}
		return r.options.complete(config)
	})
}

// ReloadFile is Reload for the file of [WithConfigFile]. Without that option it returns an error.
func (r *Replica) ReloadFile() error {
	return r.app.Reload(func() (*configs.Config, error) {
		if !r.options.fromFile {
			return nil, errors.New("found no WithConfigFile, expected it for ReloadFile")
		}
		return r.options.load()
	})
}
