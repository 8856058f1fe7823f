package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-dev/holdfast/admin/page"
	"github.com/holdfast-dev/holdfast/admin/status"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/parallel"
	"github.com/holdfast-dev/holdfast/internal/redact"
	"github.com/holdfast-dev/holdfast/internal/tracing"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/jobs/webhook"
	"github.com/holdfast-dev/holdfast/locking"
)

// Options are what a program adds to its configuration.
type Options struct {
	Handlers   []jobs.Registration   // in addition to the built-in ones: sql, http and command
	Jobs       []configs.BuiltJob    // in addition to those of the configuration
	Middleware []jobs.Middleware     // wraps all handlers, the first is the outermost
	Listeners  []jobs.Listener       // receive the events of this replica's firings
	Authorizer permission.Authorizer // decides about the users of the page; nil: their roles do
	Log        *zerolog.Logger       // nil: standard error, as the configuration says
	LogOutput  io.Writer             // used only with Log: the log of the handlers; may be nil
	Connection
	Tracers    trace.TracerProvider  // of the program; nil: the configuration decides
	Exporter   tracing.Exporter      // for the section tracing; nil: New refuses the section
	Page       page.Maker            // for admin.listen; nil: New refuses an address
	Registerer prometheus.Registerer // gets the metrics; nil: only the page serves them
	Shared     *Shared               // nil: the replica opens its own store and locks
	// Load reads the configuration again, for reloads by the API; nil: the API does not reload.
	Load func() (*configs.Config, error)
}

// Shared is the store and the locks that several replicas of one process share. The replicas do
// not close them.
type Shared struct {
	Store Storage
	Locks *LockBackend
	// Databases returns a database of the section databases; nil: the replica opens them.
	Databases func(name string) engine.Database
	Unpaced   bool // see engine.Options
}

// Replica is one process's part of a cluster: scheduler, locks, store and page. It runs once.
type Replica struct {
	// replaced by each reload; while the replica runs, it is without jobs
	config     atomic.Pointer[configs.Config]
	registry   *jobs.Registry
	middleware []jobs.Middleware
	listeners  []jobs.Listener
	authorizer permission.Authorizer // nil: roles decide
	log        zerolog.Logger
	output     io.Writer
	level      *logLevel                       // nil if the program supplies the log
	load       func() (*configs.Config, error) // nil: the API does not reload
	reloading  sync.Mutex
	status     *statusMetric
	connection Connection
	shared     *Shared
	tracers    trace.TracerProvider  // nil: the configuration decides
	exporter   tracing.Exporter      // nil: the configuration has no section tracing
	maker      page.Maker            // nil: the configuration has no address of a page
	registerer prometheus.Registerer // nil: only the page serves the metrics
	mounts     mounts
	stopped    atomic.Pointer[stop] // nil before Run has returned
	ran        atomic.Bool          // Run has been called, and Open had succeeded
	lifetime   context.Context      // ends with ErrStopped when Run returns after Open
	end        context.CancelCauseFunc

	// What Open has made, for calls from other goroutines; nil before Open has succeeded.
	parts atomic.Pointer[opened]
	// The same for Open and Run, which alone may use it.
	opened
}

// opened has the parts that Open makes. It is zero before Open, and after a failed Open.
type opened struct {
	store      Storage
	databases  []*jobDatabase // of jobs, by name
	metrics    *metrics.Metrics
	timed      storage.Store // store, with its calls measured by metrics
	locks      *LockBackend
	locker     *locking.Locker  // nil without advisory locks
	tracing    tracing.Exported // nil without a collector
	traces     engine.Tracing   // nil without tracing
	scheduler  *engine.Scheduler
	operations *operations.Operations
	sender     *webhook.Sender
	page       page.Server     // nil without admin.listen
	until      context.Context // of calls that wait; ends with ErrStopped or, at Close, ErrNotOpen
	endUntil   context.CancelCauseFunc
}

// New checks the configuration against the handlers and returns a replica. It opens and starts
// nothing.
//
// It returns configs.ErrNotRead for a configuration that configs.Load, configs.Parse or
// configs.Build did not return, or whose jobs were changed since.
func New(config *configs.Config, o Options) (*Replica, error) {
	if err := config.CheckRead(); err != nil {
		return nil, err
	}
	if err := o.check(config); err != nil {
		return nil, err
	}
	targets, err := targetsOf(config)
	if err != nil {
		return nil, err
	}
	registry, err := newRegistry(config.Handlers.Disabled, targets, o.Handlers)
	if err != nil {
		return nil, err
	}
	r := &Replica{registry: registry, output: o.LogOutput, shared: o.Shared,
		status: newStatusMetric(), connection: o.Connection,
		tracers: o.Tracers, exporter: o.Exporter, maker: o.Page, registerer: o.Registerer,
		middleware: o.Middleware, listeners: o.Listeners,
		authorizer: o.Authorizer, load: o.Load}
	r.lifetime, r.end = context.WithCancelCause(context.Background())
	r.config.Store(config)
	if o.Log != nil {
		r.log = *o.Log
	} else {
		r.log, r.output, r.level = NewLog(config.Log, os.Stderr)
	}
	if err := checkStore(config, registry); err != nil {
		return nil, err
	}
	if err := bindAll(config, registry); err != nil {
		return nil, err
	}
	return r, nil
}

// bindAll returns the error of the first job whose params do not fit its handler.
func bindAll(config *configs.Config, registry *jobs.Registry) error {
	failed := make([]error, len(config.Jobs))
	parallel.For(len(failed), func(i int) {
		j := &config.Jobs[i]
		if _, err := registry.Bind(j.Handler, j.Params.JSON()); err != nil {
			failed[i] = fmt.Errorf("job %q: %w", j.Name, redact.New(j.Params.Secrets()).Error(err))
		}
	})
	return cmp.Or(failed...)
}

// check returns an error for each part that the configuration needs and the program does not have.
func (o *Options) check(config *configs.Config) error {
	problems := []error{checkTracing(config, *o), checkPage(config, o.Page)}
	if o.Shared == nil {
		problems = append(problems, o.Connection.check(config))
	}
	return errors.Join(problems...)
}

// Open makes the parts of the replica in the order that doc.go shows. A mistake in any of them is
// an error at start. After an error, Open closes what it has made and may be called again. It does
// nothing if the replica is open, and returns ErrHasRun after Run.
func (r *Replica) Open(ctx context.Context) (err error) {
	switch {
	case r.ran.Load():
		return ErrHasRun
	case r.parts.Load() != nil:
		return nil
	}
	defer func() {
		if err != nil {
			r.endUntil(ErrNotOpen)
			r.close()
			r.opened = opened{} // the next Open must not use closed parts
			return
		}
		parts := r.opened
		r.parts.Store(&parts)
	}()
	r.until, r.endUntil = context.WithCancelCause(r.lifetime)
	config := r.config.Load()
	for _, step := range []func(context.Context, *configs.Config) error{
		r.openStore, r.openDatabases, r.openLocks, r.openTracing, r.openScheduler, r.openSender,
		r.openPage, r.openMounts,
	} {
		if err := step(ctx, config); err != nil {
			return err
		}
	}
	return nil
}

// AdminAddr returns the page's address, host:port, once Open has succeeded. It returns "" if the
// configuration has no page.
func (r *Replica) AdminAddr() string {
	if parts := r.parts.Load(); parts != nil && parts.page != nil {
		return parts.page.Addr()
	}
	return ""
}

// Ready returns nil if the replica can start runs now, else the reason why not.
func (r *Replica) Ready(ctx context.Context) error {
	parts := r.parts.Load()
	if parts == nil {
		return fmt.Errorf("%w: it is not open", engine.ErrNotReady)
	}
	return parts.scheduler.Ready(ctx)
}

// stop is the end of Run.
type stop struct{ err error }

// ErrStopped is the error of a method that needs a replica whose Run has not returned.
var ErrStopped = errors.New("replica has stopped")

// Stopped returns ErrStopped after Run has returned, else nil.
func (r *Replica) Stopped() error { return context.Cause(r.lifetime) }

// UntilClosed returns a context that also ends when Run returns, with ErrStopped, and at Close,
// with ErrNotOpen.
func (r *Replica) UntilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	parts := r.parts.Load()
	if parts == nil {
		cancel(ErrNotOpen)
		return ctx, func() {}
	}
	stop := context.AfterFunc(parts.until, func() { cancel(context.Cause(parts.until)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// Health returns nil unless Run has returned.
func (r *Replica) Health() error {
	switch end := r.stopped.Load(); {
	case end == nil:
		return nil
	case end.err != nil:
		return fmt.Errorf("%w: %w", ErrStopped, end.err)
	}
	return ErrStopped
}

// Operations returns the actions of operators, once Open has succeeded; nil before. They need only
// the store, so they work whether or not the replica runs.
func (r *Replica) Operations() *operations.Operations {
	if parts := r.parts.Load(); parts != nil {
		return parts.operations
	}
	return nil
}

// Run fires jobs and serves the page until ctx ends. Then it stops gracefully, as doc.go shows. It
// calls Open if Open has not succeeded before.
func (r *Replica) Run(ctx context.Context) (err error) {
	if r.ran.Load() {
		return ErrHasRun
	}
	r.stopped.Store(nil) // an earlier Run may have failed in Open
	defer func() { r.stopped.Store(&stop{err}) }()
	if r.scheduler == nil {
		if err := r.Open(ctx); err != nil {
			return err
		}
	}
	r.forgetJobs()
	defer r.close()
	defer func() {
		r.reloading.Lock() // a reload uses the parts
		defer r.reloading.Unlock()
		r.end(ErrStopped)
	}()
	// All parts except the scheduler continue until the last run has ended.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	running, stopRunning := context.WithCancel(ctx)
	defer stopRunning()
	var parts errgroup.Group
	parts.Go(func() error {
		defer stopServing()
		return r.scheduler.Run(running)
	})
	for _, d := range r.databases {
		parts.Go(func() error {
			d.watch(serving)
			return nil
		})
	}
	r.runWatch(serving, &parts)
	parts.Go(func() error {
		return r.status.run(serving, status.NewReader(r.statusOptions(r.config.Load())))
	})
	parts.Go(func() error { return r.sender.Run(serving) })
	if r.page != nil {
		parts.Go(func() error {
			defer stopRunning() // operators cannot see a replica without a page, so it stops
			return r.page.Run(serving)
		})
	}
	return parts.Wait()
}

// forgetJobs marks the replica as one that runs, and removes the jobs from its configuration: the
// scheduler has them, and a replica that runs is not opened again.
func (r *Replica) forgetJobs() {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	r.ran.Store(true)
	r.config.Store(r.withoutJobs(r.config.Load()))
}

// withoutJobs returns the configuration without its jobs. Jobs that are added at run time are
// checked against those of the scheduler.
func (r *Replica) withoutJobs(config *configs.Config) *configs.Config {
	return config.WithoutJobs(func(yield func(configs.OtherJob) bool) {
		for j := range r.scheduler.AllConfigured() {
			if !yield(configs.OtherJob{Name: j.Name, Schedule: j.Schedule,
				Requests: j.Resources}) {
				return
			}
		}
	})
}

// Close closes the parts that Open has made. The replica may be opened again. Close does nothing
// after Run, which has closed the parts.
func (r *Replica) Close() {
	if r.ran.Load() {
		return
	}
	r.reloading.Lock() // a reload uses the parts
	r.parts.Store(nil)
	r.reloading.Unlock()
	if r.endUntil != nil {
		r.endUntil(ErrNotOpen)
	}
	r.close()
	r.opened = opened{}
}

// close closes the parts that Open has made.
func (r *Replica) close() {
	r.closeMounts()
	if r.page != nil {
		if err := r.page.Close(); err != nil && !errors.Is(err, context.Canceled) {
			r.log.Debug().Err(err).Msg("closing the page returned an error")
		}
	}
	r.flush()
	if r.registerer != nil && r.metrics != nil {
		r.metrics.Unregister(r.registerer)
	}
	r.closeDatabases()
	if r.shared != nil {
		return
	}
	if r.locks != nil {
		if err := r.locks.Close(); err != nil {
			r.log.Debug().Err(err).Msg("closing the lock connections returned an error")
		}
	}
	if r.store.Store != nil {
		r.store.Close()
	}
}
