package holdfast

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs"
)

// Option adjusts a Replica.
type Option func(*settings)

type settings struct {
	handlers  []jobs.Registration
	log       *zerolog.Logger
	logOutput io.Writer
	shared    *shared
}

// shared is what several replicas of one process have in common.
type shared struct {
	store jobs.Store
	locks *lockBackend
}

// WithHandlers adds handlers to the built-in ones: sql, http and command.
func WithHandlers(handlers ...jobs.Registration) Option {
	return func(s *settings) { s.handlers = append(s.handlers, handlers...) }
}

// WithLog makes the replica log to log instead of standard error by the
// configuration. What handlers log goes to output, which may be nil, and is
// kept with their runs.
func WithLog(log zerolog.Logger, output io.Writer) Option {
	return func(s *settings) { s.log, s.logOutput = &log, output }
}

// withShared makes the replica use what others of the process use too.
func withShared(store jobs.Store, locks *lockBackend) Option {
	return func(s *settings) { s.shared = &shared{store: store, locks: locks} }
}

// Replica is one process's part of a cluster: scheduler, locks, store and
// page. It is run once.
type Replica struct {
	config   *configs.Config
	registry *jobs.Registry
	table    []jobs.Job
	log      zerolog.Logger
	output   io.Writer
	shared   *shared

	store     jobs.Store
	locks     *lockBackend
	scheduler *jobs.Scheduler
	page      *admin.Server // nil where admin.listen is empty
}

// New checks the configuration against the handlers and returns a replica. It
// opens and starts nothing.
func New(config *configs.Config, options ...Option) (*Replica, error) {
	var s settings
	for _, option := range options {
		option(&s)
	}
	registry, err := newRegistry(s.handlers)
	if err != nil {
		return nil, err
	}
	table, err := jobTable(config)
	if err != nil {
		return nil, err
	}
	r := &Replica{config: config, registry: registry, table: table, output: s.logOutput, shared: s.shared}
	if s.log != nil {
		r.log = *s.log
	} else {
		r.log, r.output = newLog(config.Log, os.Stderr)
	}
	for _, job := range table {
		if _, err := registry.Bind(job.Handler, job.Params); err != nil {
			return nil, fmt.Errorf("job %q: %w", job.Name, err)
		}
	}
	return r, nil
}

// Open reaches the store, makes the locks and takes the page's address, so
// that what is wrong with any of them is an error at start. Run calls it
// where it was not called before.
func (r *Replica) Open(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if err := r.openStore(ctx); err != nil {
		return err
	}
	locker, err := newLocker(r.config, r.locks, r.store.ClusterID(), r.log)
	if err != nil {
		return err
	}
	r.scheduler, err = jobs.New(jobs.Options{
		Store: r.store, Locker: locker, Registry: r.registry, Jobs: r.table, Replica: r.config.Replica.Name, Version: Version(),
		Succeeds: !r.config.Replica.Drawn, Workers: r.config.Workers, Heartbeat: r.config.Session.Heartbeat, SessionTTL: r.config.Session.Expires,
		ShutdownGrace: r.config.ShutdownGrace, SkipWithoutLocks: r.config.Locking.WhenUnavailable == configs.SkipFirings,
		Log: r.log, LogOutput: r.output,
	})
	if err != nil {
		return err
	}
	if r.config.Admin.Listen == "" {
		return nil
	}
	options := r.pageOptions()
	if locker != nil {
		options.Stage1 = locker
	}
	if r.page, err = admin.New(options); err != nil {
		return err
	}
	return r.page.Listen()
}

func (r *Replica) openStore(ctx context.Context) (err error) {
	if r.shared != nil {
		r.store, r.locks = r.shared.store, r.shared.locks
		return nil
	}
	if r.store, err = openStore(ctx, r.config, true, r.log); err != nil {
		return err
	}
	r.locks, err = newLockBackend(ctx, r.config, r.log)
	return err
}

func (r *Replica) pageOptions() admin.Options {
	users := make([]admin.User, len(r.config.Admin.Users))
	for i, u := range r.config.Admin.Users {
		users[i] = admin.User{Name: u.Name, PasswordHash: u.PasswordHash.Reveal()}
	}
	return admin.Options{
		Listen: r.config.Admin.Listen, Users: users, Store: r.store, Replica: r.config.Replica.Name, Session: r.scheduler.Session,
		Version: Version(), Upcoming: r.upcoming, Ready: r.scheduler.Ready, Refresh: r.config.Admin.Refresh, Log: r.log,
	}
}

func (r *Replica) upcoming(from time.Time, n int) []admin.Due {
	dues := r.scheduler.Upcoming(from, n)
	shown := make([]admin.Due, len(dues))
	for i, d := range dues {
		shown[i] = admin.Due(d)
	}
	return shown
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
	var both errgroup.Group
	both.Go(func() error {
		defer stopServing()
		return r.scheduler.Run(running)
	})
	if r.page != nil {
		both.Go(func() error {
			defer stopRunning() // without its page a replica stops, rather than run unseen
			return r.page.Run(serving)
		})
	}
	return both.Wait()
}

func (r *Replica) close() {
	if r.page != nil {
		if err := r.page.Close(); err != nil && !errors.Is(err, context.Canceled) {
			r.log.Debug().Err(err).Msg("page closed")
		}
	}
	if r.shared != nil {
		return
	}
	if r.locks != nil {
		if err := r.locks.close(); err != nil {
			r.log.Debug().Err(err).Msg("lock connections closed")
		}
	}
	if r.store != nil {
		r.store.Close()
	}
}
