package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// Options are the options of a Scheduler.
type Options struct {
	Store storage.Store
	// RunStore is the value of [Run].Store: the store itself if Store is a decorator; nil: Store.
	RunStore storage.Store
	Locker   *locking.Locker // nil without memcached
	Registry *jobs.Registry
	Jobs     []jobs.Job
	// Build returns the Job of the text of a Spec. Without it, added jobs are left to other
	// replicas.
	Build func(text json.RawMessage) (jobs.Job, error)

	Replica string // this replica's name
	// Succeeds says that Replica is a configured name, which no other live process has. Earlier
	// sessions of that name then expire at once.
	Succeeds bool
	Version  string // of the binary
	// LockServers identifies the memcached servers and their order. Replicas that differ in it are
	// logged and counted. "" is not compared.
	LockServers string

	// MaxClockOffset is the largest difference between this machine's clock and the store's at
	// which runs start on this replica; 0: no limit.
	MaxClockOffset time.Duration

	Workers int // firings that run at once; at least 1
	// CatchUp is how many workers may run late runs at once, so that current firings also run after
	// an outage. 0 is a quarter of the workers, at least one.
	CatchUp   int
	Heartbeat time.Duration // between renewals of the session
	// the time from the last renewal to the expiry of a session; at least 3 heartbeats
	SessionTTL    time.Duration
	ShutdownGrace time.Duration // how long runs may go on after the context of Run ended
	// KeepHistory is how long the store keeps ended runs; 0: no limit. If replicas differ, the
	// shortest counts.
	KeepHistory time.Duration
	// SkipWithoutLocks skips firings while memcached does not answer, instead of leaving them to
	// the store alone.
	SkipWithoutLocks bool

	Middleware []jobs.Middleware // wraps all handlers, the outermost first
	Listeners  []jobs.Listener   // get the events of this replica
	// Observer, if set, is called with each event by the goroutine of the firing: concurrently. It
	// must return at once and not panic.
	Observer func(jobs.Event)
	Tracing  Tracing // nil: no tracing

	Log zerolog.Logger
	// LogOutput is where Log writes. Logs of handlers go there and to the output of their runs;
	// with nil only to the output.
	LogOutput io.Writer
}

func (o *Options) check() error {
	var problems []error
	if o.Store == nil || o.Registry == nil {
		problems = append(problems, errors.New("a scheduler needs a store and a registry"))
	}
	if o.Replica == "" {
		problems = append(problems, errors.New("a replica needs a name"))
	}
	if o.Workers < 1 {
		problems = append(problems, fmt.Errorf("workers: at least 1, found %d", o.Workers))
	}
	if o.CatchUp < 0 || o.CatchUp > max(o.Workers, 1) {
		problems = append(problems,
			fmt.Errorf("workers for late runs: 0 to %d, found %d", o.Workers, o.CatchUp))
	}
	if o.Heartbeat <= 0 || o.SessionTTL < 3*o.Heartbeat {
		problems = append(problems,
			fmt.Errorf("session: expires after at least 3 heartbeats, found %s and %s",
				o.SessionTTL, o.Heartbeat))
	}
	return errors.Join(problems...)
}

// Scheduler is one replica of the cluster. It fires jobs, runs them, and takes part in the upkeep.
// Its methods may be called concurrently.
type Scheduler struct {
	options    Options
	table      *cronTable
	engine     *engine
	keeper     *keeper
	dispatcher *dispatcher
	upkeep     *upkeep
	retention  *retention
	drift      *drift
	stopping   chan struct{} // closed when Run begins to stop
}

// New returns a scheduler, or every mistake in its options and jobs. It does not call the store;
// Run does.
func New(o Options) (*Scheduler, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	registry := o.Registry.With(o.Middleware)
	table, err := newCronTable(registry, o.Jobs)
	if err != nil {
		return nil, err
	}
	s := &Scheduler{options: o, table: table, stopping: make(chan struct{})}
	log := o.Log.With().Str("replica", o.Replica).Logger()
	clock, running, queue := &clusterClock{}, newActive(),
		newReady(o.Replica, cmp.Or(o.CatchUp, max(o.Workers/4, 1)))
	s.engine = &engine{
		replica: o.Replica, store: o.Store, handed: cmp.Or(o.RunStore, o.Store), locker: o.Locker,
		skipUnavailable: o.SkipWithoutLocks, ttl: o.SessionTTL,
		clock: clock, clockLimit: &clockLimit{clock: clock, most: o.MaxClockOffset, log: log},
		active: running, workers: newWorkers(o.Workers),
		starts: newBatcher(bySession(o.Store.Start)), notes: newBatcher(bySession(o.Store.Note)),
		finishes: newWeighedBatcher(o.Store.Finish, storage.MaxFinishBytes,
			storage.FinishRequest.Weight),
		pollIntervals: defaultIntervals(), log: log, logOutput: o.LogOutput, registry: registry,
		eventBus: newEventBus(o.Observer, o.Listeners, log), tracing: o.Tracing,
	}
	activation := newActivation(o.Store, table, log)
	s.engine.doubt = activation.doubt
	s.engine.controlState = &controlState{
		control: o.Store, session: s.Session, table: table, activation: activation, active: running,
		registry: registry, build: o.Build, log: log,
		polls: make(chan struct{}, 1), refused: map[string]int64{},
		cancelled: map[uuid.UUID]string{}, every: s.engine.pollIntervals.controlState,
		watched: &watched{store: o.Store, active: running, written: map[jobs.Token]int64{}},
	}
	s.keeper = newKeeper(&keeper{
		store: o.Store, activation: activation, revoke: o.Store.Revoke, replica: o.Replica,
		succeeds: o.Succeeds, version: o.Version, servers: o.LockServers, hash: table.hash,
		replicaStatus: s.engine.replicaStatus,
		interval:      o.Heartbeat, ttl: o.SessionTTL, clock: clock, active: running, log: log,
	})
	s.engine.controlState.heartbeatNow = s.keeper.heartbeatNow
	s.dispatcher = &dispatcher{engine: s.engine, table: table, ready: queue, keeper: s.keeper,
		revised: activation.revised}
	s.retention = &retention{store: o.Store, keeper: s.keeper, keep: o.KeepHistory, log: log}
	s.drift = newDrift(o.Store, o.Replica, o.LockServers, table.hash, clock.now, log)
	s.upkeep = &upkeep{
		engine: s.engine, drift: s.drift, table: table, ready: queue, keeper: s.keeper,
		every: o.Heartbeat, page: maxMisfirePage,
		held: map[string]bool{},
	}
	return s, nil
}

// Run registers the jobs and fires them until ctx ends. Then it starts nothing more, waits for runs
// during the grace period, cancels the rest, records their ends, gives back locks and session, and
// returns nil. While the store is unavailable it retries. It returns an error if the store refuses
// the first session or its jobs. It must be called once.
func (s *Scheduler) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s.engine.log.Info().Int("jobs", s.table.len()).Int("workers", s.options.Workers).
		Msg("scheduler started")

	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBackground()
	var behind sync.WaitGroup
	for _, serve := range s.background() {
		behind.Go(func() { serve(background) })
	}
	var refused error
	behind.Go(func() {
		if _, refused = s.keeper.Run(background); refused != nil {
			stop()
		}
	})
	var front sync.WaitGroup
	front.Go(func() { s.dispatcher.run(ctx) })
	front.Go(func() { s.upkeep.run(ctx) })
	front.Go(func() { s.retention.run(ctx) })
	// cancellations are obeyed until the last run has ended
	behind.Go(func() { s.engine.controlState.run(background) })
	front.Go(func() {
		<-ctx.Done()
		close(s.stopping)
	})
	front.Wait()
	s.drain()
	stopBackground()
	behind.Wait()
	s.engine.log.Info().Msg("scheduler stopped")
	return refused
}

// background returns the services that firings need until the last of them has ended.
func (s *Scheduler) background() []func(context.Context) {
	e := s.engine
	serve := []func(context.Context){e.eventBus.run}
	if e.locker != nil {
		serve = append(serve, func(ctx context.Context) {
			if err := e.locker.Run(ctx); err != nil && ctx.Err() == nil {
				e.log.Error().Err(err).Msg("renewal of advisory locks failed")
			}
		})
	}
	return serve
}

// drain waits for the firings in progress. After the grace period it cancels them.
func (s *Scheduler) drain() {
	ended := make(chan struct{})
	go func() {
		s.dispatcher.firings.Wait()
		close(ended)
	}()
	s.engine.log.Info().Int("runs", s.engine.active.len()).Dur("grace", s.options.ShutdownGrace).
		Msg("stopping, waiting for runs")
	select {
	case <-ended:
		return
	case <-time.After(s.options.ShutdownGrace):
	}
	s.engine.log.Warn().Int("runs", s.engine.active.len()).Msg("grace period ended, runs cancelled")
	s.engine.active.cancelAll(jobs.ErrShutdown)
	<-ended // bounded: a handler that ignores its context is abandoned
}

func (s *Scheduler) isStopping() bool {
	select {
	case <-s.stopping:
		return true
	default:
		return false
	}
}

// ErrNotReady says that a replica cannot start runs.
var ErrNotReady = errors.New("replica is not ready")

// Ready returns nil if this replica can start runs now, or an error that wraps ErrNotReady with the
// reason.
func (s *Scheduler) Ready(context.Context) error { return s.readiness() }

func (s *Scheduler) readiness() error {
	switch {
	case s.isStopping():
		return fmt.Errorf("%w: it is stopping", ErrNotReady)
	case s.keeper.session() == nil:
		return fmt.Errorf("%w: it has no session in the store", ErrNotReady)
	case s.engine.controlState.draining():
		return fmt.Errorf("%w: it was drained by an operator", ErrNotReady)
	}
	if err := s.engine.clockLimit.check(time.Now()); err != nil {
		return fmt.Errorf("%w: %w", ErrNotReady, err)
	}
	return nil
}

// Explainer returns an Explainer for the jobs of this replica, including added jobs, whose history
// is kept for keep.
func (s *Scheduler) Explainer(keep time.Duration) *explain.Explainer {
	x := explain.New(s.options.Store, nil, keep)
	x.Pauses = s.options.Store.Pauses
	x.Job = func(name string) (jobs.Job, bool) {
		if e := s.table.get(name); e != nil {
			return e.Job, true
		}
		return jobs.Job{}, false
	}
	x.Hash = func(name string) string {
		if e := s.table.get(name); e != nil {
			return e.definition.Hash
		}
		return ""
	}
	x.Names = func() (names []string) {
		for _, e := range s.table.all() {
			names = append(names, e.Name)
		}
		return names
	}
	return x
}

// Session returns the id of this replica's session, or a zero id without one.
func (s *Scheduler) Session() uuid.UUID {
	if l := s.keeper.session(); l != nil {
		return l.ID
	}
	return uuid.Nil
}

// Upcoming returns, for each job that this replica fires, the first firing that starts after from,
// the soonest first, at most n of them.
func (s *Scheduler) Upcoming(from time.Time, n int) []ScheduledFiring {
	return s.table.upcoming(from, n)
}

// LongestWait returns the longest wait of a firing of the job for a held lock, or limit if that is
// shorter. It returns false if this replica does not fire the job. A firing also ends its wait at
// the job's next scheduled time.
func (s *Scheduler) LongestWait(job string, limit time.Duration) (time.Duration, bool) {
	return s.table.longestWait(job, limit)
}

// ScheduledTimes returns the first scheduled times after from of a job that this replica fires, at
// most n of them; none for other jobs.
func (s *Scheduler) ScheduledTimes(job string, from time.Time, n int) []time.Time {
	return s.table.scheduledTimes(job, from, n)
}

// ClockOffset returns how far the store's clock is ahead of this machine's at the last measurement;
// 0 before the first.
func (s *Scheduler) ClockOffset() time.Duration { return s.engine.clock.Offset() }

// ServerLists returns how many different lists of memcached servers the live replicas have; 0
// before the first comparison. If there is more than one, replicas look for the same lock on
// different servers.
func (s *Scheduler) ServerLists() int { return int(s.drift.servers.number.Load()) }

// CronTables returns how many different cron tables the configurations of the live replicas have; 0
// before the first comparison.
func (s *Scheduler) CronTables() int { return int(s.drift.table.number.Load()) }
