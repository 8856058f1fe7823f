package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/tracing"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/webhook"
)

// Options are what a program adds to its configuration.
type Options struct {
	Handlers   []jobs.Registration // beside the built-in ones: sql, http and command
	Middleware []jobs.Middleware   // around all handlers, the outermost first
	Listeners  []jobs.Listener     // called with the events of this replica's firings
	Log        *zerolog.Logger     // nil: standard error, by the configuration
	LogOutput  io.Writer           // with Log: where handlers log to; may be nil
	Shared     *Shared             // nil: the replica opens a store and locks of its own
}

// Shared is what several replicas of one process have in common. They do not
// close it.
type Shared struct {
	Store Storage
	Locks *LockBackend
}

// Replica is one process's part of a cluster: scheduler, locks, store and
// page. It is run once.
type Replica struct {
	config     atomic.Pointer[configs.Config] // as the last reload left it
	registry   *jobs.Registry
	table      []jobs.Job
	middleware []jobs.Middleware
	listeners  []jobs.Listener
	log        zerolog.Logger
	output     io.Writer
	level      *logLevel // nil where the log is the program's
	reloading  sync.Mutex
	shared     *Shared

	opened
}

// opened is what Open makes. It is zero before, and where Open has failed.
type opened struct {
	metrics    *metrics.Metrics
	tracing    *tracing.Tracing // nil where nothing is traced
	store      Storage
	timed      jobs.Store // store, timed
	locks      *LockBackend
	scheduler  *jobs.Scheduler
	operations *jobs.Operations
	sender     *webhook.Sender // nil where there are no webhooks
	page       *admin.Server   // nil where admin.listen is empty
}

// New checks the configuration against the handlers and returns a replica. It
// opens and starts nothing. A configuration that configs.Load or configs.Parse did
// not return, or whose jobs were changed since, is refused with configs.ErrNotRead.
func New(config *configs.Config, o Options) (*Replica, error) {
	if err := config.CheckRead(); err != nil {
		return nil, err
	}
	registry, err := NewRegistry(o.Handlers)
	if err != nil {
		return nil, err
	}
	table := Jobs(config)
	r := &Replica{registry: registry, table: table, output: o.LogOutput, shared: o.Shared,
		middleware: o.Middleware, listeners: o.Listeners}
	r.config.Store(config)
	if o.Log != nil {
		r.log = *o.Log
	} else {
		r.log, r.output, r.level = NewLog(config.Log, os.Stderr)
	}
	for _, job := range table {
		if _, err := registry.Bind(job.Handler, job.Params); err != nil {
			return nil, fmt.Errorf("job %q: %w", job.Name, err)
		}
	}
	return r, nil
}

// Open reaches the store, makes the locks and takes the page's address, so
// that what is wrong with any of them is an error at start. After an error it may be
// called again. Run calls it where it was not called with success.
func (r *Replica) Open(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			r.close()
			r.opened = opened{} // Run opens anew, and works on nothing that was closed
		}
	}()
	if err := r.openStore(ctx); err != nil {
		return err
	}
	r.metrics = metrics.New(metrics.Options{Names: r.config.Load().Metrics.Names,
		Version: Version()})
	r.timed = r.metrics.Store(r.store)
	locker, err := NewLocker(r.config.Load(), r.timedLocks(), r.store, r.metrics.Lock, r.log)
	if err != nil {
		return err
	}
	if r.tracing, err = newTracing(ctx, r.config.Load(), r.store.ClusterID(), r.log); err != nil {
		return err
	}
	specs := Specs{Config: r.config.Load, Registry: r.registry}
	r.operations = NewOperations(specs, r.table, r.timed, r.store.Outbox, locker,
		r.config.Load().Replica.Name, func(run jobs.Record) { r.scheduler.PublishCancelled(run) },
		r.log)
	options := jobs.Options{
		Build:  specs.Build,
		Locker: locker, Registry: r.registry, Jobs: r.table, Replica: r.config.Load().Replica.Name,
		Version:  Version(),
		Succeeds: !r.config.Load().Replica.Drawn, MaxClockOffset: r.config.Load().Clock.MaxOffset,
		KeepHistory: r.config.Load().History.Keep,
		Workers:     r.config.Load().Workers, CatchUp: r.config.Load().CatchUp.Workers,
		Heartbeat: r.config.Load().Session.Heartbeat, SessionTTL: r.config.Load().Session.Expires,
		ShutdownGrace:    r.config.Load().ShutdownGrace,
		SkipWithoutLocks: r.config.Load().Locking.WhenUnavailable == configs.SkipFirings,
		LockServers:      lockServers(r.config.Load()), Middleware: r.middleware,
		Listeners: r.listeners, Log: r.log, LogOutput: r.output,
	}
	r.observe(&options)
	if r.scheduler, err = jobs.New(options); err != nil {
		return err
	}
	r.watch()
	if r.sender, err = newSender(r.config.Load(), r.store, r.log); err != nil {
		return err
	}
	if r.config.Load().Admin.Listen == "" {
		return nil
	}
	page := r.pageOptions()
	if locker != nil {
		page.Advisory = locker
	}
	if r.locks != nil && r.locks.watch != nil {
		page.Memcached = r.locks.watch
	}
	if r.page, err = admin.New(page); err != nil {
		return err
	}
	return r.page.Listen()
}

func (r *Replica) openStore(ctx context.Context) (err error) {
	if r.shared != nil {
		r.store, r.locks = r.shared.Store, r.shared.Locks
		return nil
	}
	if r.store, err = OpenStore(ctx, r.config.Load(), true, r.log); err != nil {
		return err
	}
	if r.locks, err = NewLockBackend(r.config.Load(), r.log); err != nil {
		return err
	}
	return r.locks.firstLook(ctx, r.config.Load())
}

// AdminAddr returns the page's address, host:port, once Open has succeeded; ""
// where the configuration has none.
func (r *Replica) AdminAddr() string {
	if r.page == nil {
		return ""
	}
	return r.page.Addr()
}

// Ready returns nil when the replica can start runs now, else why not.
func (r *Replica) Ready(ctx context.Context) error {
	if r.scheduler == nil {
		return fmt.Errorf("%w: it has not started", jobs.ErrNotReady)
	}
	return r.scheduler.Ready(ctx)
}

// Run fires jobs and serves the page until ctx ends, then stops gracefully:
// nothing more is started, runs may end by themselves within the grace, the
// rest is cancelled, locks and session are given back. The page is served
// until the last run has ended.
func (r *Replica) Run(ctx context.Context) error {
	if r.scheduler == nil {
		if err := r.Open(ctx); err != nil {
			return err
		}
	}
	defer r.close()
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	running, stopRunning := context.WithCancel(ctx)
	defer stopRunning()
	var parts errgroup.Group
	parts.Go(func() error {
		defer stopServing()
		return r.scheduler.Run(running)
	})
	if r.locks != nil && r.locks.watch != nil {
		parts.Go(func() error { return r.locks.watch.Run(serving) })
		if r.store.Restarts != nil {
			notes := restartNotes{servers: r.locks.watch, store: r.store.Restarts,
				replica: r.config.Load().Replica.Name, log: r.log}
			parts.Go(func() error { return notes.run(serving) })
		}
	}
	if r.sender != nil {
		parts.Go(func() error { return r.sender.Run(serving) }) // also of what ends while it stops
	}
	if r.page != nil {
		parts.Go(func() error {
			defer stopRunning() // without its page a replica stops, rather than run unseen
			return r.page.Run(serving)
		})
	}
	return parts.Wait()
}

// close gives back what Open has made, whole or in part.
func (r *Replica) close() {
	if r.page != nil {
		if err := r.page.Close(); err != nil && !errors.Is(err, context.Canceled) {
			r.log.Debug().Err(err).Msg("page closed")
		}
	}
	r.flush()
	if r.locks != nil && r.shared == nil {
		if err := r.locks.Close(); err != nil {
			r.log.Debug().Err(err).Msg("lock connections closed")
		}
	}
	if r.store.Store != nil && r.shared == nil {
		r.store.Close()
	}
}
