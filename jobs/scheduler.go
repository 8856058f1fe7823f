package jobs

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

	"github.com/holdfast-dev/holdfast/locking"
)

// Options says what a Scheduler fires and with what.
type Options struct {
	Store Store
	// RunStore is what runs are given as [Run].Store, the store itself where Store
	// is a decorator; nil: Store.
	RunStore Store
	Locker   *locking.Locker // stage 1; nil where there is none
	Registry *Registry
	Jobs     []Job
	// Build makes a Job of the text of one that was added at run time, as a Spec
	// has it. Without it, such jobs are left to other replicas.
	Build func(text json.RawMessage) (Job, error)

	Replica string // this replica's name
	// Succeeds says that Replica is a configured name, which no other living
	// process has: what a former life of it left is taken back at once.
	Succeeds bool
	Version  string // of the binary
	// LockServers identifies stage 1's servers and their order: replicas
	// that differ in it are told of. "" is not compared.
	LockServers string

	// MaxClockOffset is how far this machine's clock may be off the store's for
	// runs to be started here; 0: however far.
	MaxClockOffset time.Duration

	Workers int // firings at work at once; at least 1
	// CatchUp is how many of the workers may be at work on late runs at once: an
	// outage is caught up with beside what is due meanwhile. 0 is a quarter of the
	// workers, at least one.
	CatchUp   int
	Heartbeat time.Duration // between renewals of the session
	// a session expires that long after its last renewal; at least 3 heartbeats
	SessionTTL    time.Duration
	ShutdownGrace time.Duration // how long runs may go on after Run's context ended
	// KeepHistory is how long what has ended is kept in the store; 0: for ever.
	// Where replicas differ, the shortest counts.
	KeepHistory time.Duration
	// SkipWithoutLocks skips firings while stage 1 can't be asked, rather
	// than leaving them to the store alone.
	SkipWithoutLocks bool

	Middleware []Middleware // around all handlers, the outermost first
	Listeners  []Listener   // told of what happens to firings here
	// Observer, if set, is told of each event as it happens, by the firing's own
	// goroutine: it is called concurrently, must return at once and not panic.
	Observer func(Event)
	Tracing  Tracing // nil: nothing is traced

	Log zerolog.Logger
	// LogOutput is where Log writes. What handlers log goes there, and is
	// kept with their runs. nil means that it is only kept.
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

// Scheduler is one replica's part of the cluster: it fires jobs, runs them,
// and does its share of the upkeep. Its methods may be called concurrently.
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

// New returns a scheduler, or every mistake in its options and jobs. It does
// not touch the store; Run does.
func New(o Options) (*Scheduler, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	registry := o.Registry.within(o.Middleware)
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
		finishes: newWeighedBatcher(o.Store.Finish, MaxFinishBytes, FinishRequest.weight),
		pace:     usualPace(), log: log, logOutput: o.LogOutput, registry: registry,
		eventBus: newEventBus(o.Observer, o.Listeners, log), tracing: o.Tracing,
	}
	activation := newActivation(o.Store, table, log)
	s.engine.doubt = activation.doubt
	s.engine.controlState = &controlState{
		control: o.Store, session: s.Session, table: table, activation: activation, active: running,
		registry: registry, build: o.Build, log: log,
		looks: make(chan struct{}, 1), refused: map[string]int64{},
		cancelled: map[uuid.UUID]string{}, every: s.engine.pace.controlState,
		watched: &watched{store: o.Store, active: running, kept: map[Token]int64{}},
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

// Run registers the jobs and fires them until ctx ends. Then it starts
// nothing more, lets runs go on for the grace, cancels those that are left,
// records how they ended, gives locks and session back, and returns nil. While
// the store can't be asked it goes on trying; it returns an error when the
// store refuses the first session or its jobs. It is called once.
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
	// cancels are heard of until the last run has ended
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

// background is what firings need until the last of them has ended.
func (s *Scheduler) background() []func(context.Context) {
	e := s.engine
	serve := []func(context.Context){e.eventBus.run}
	if e.locker != nil {
		serve = append(serve, func(ctx context.Context) {
			if err := e.locker.Run(ctx); err != nil && ctx.Err() == nil {
				e.log.Error().Err(err).Msg("renewal of locks ended")
			}
		})
	}
	return serve
}

// drain waits for the firings under way: first as they are, then cancelled.
func (s *Scheduler) drain() {
	ended := make(chan struct{})
	go func() {
		s.dispatcher.firings.Wait()
		close(ended)
	}()
	s.engine.log.Info().Int("runs", s.engine.active.len()).Dur("grace", s.options.ShutdownGrace).
		Msg("stopping, runs may end by themselves")
	select {
	case <-ended:
		return
	case <-time.After(s.options.ShutdownGrace):
	}
	s.engine.log.Warn().Int("runs", s.engine.active.len()).Msg("grace is over, runs are cancelled")
	s.engine.active.cancelAll(ErrShutdown)
	<-ended // bounded: a handler that ignores its context is left behind
}

func (s *Scheduler) isStopping() bool {
	select {
	case <-s.stopping:
		return true
	default:
		return false
	}
}

// ErrNotReady says why a replica cannot start runs.
var ErrNotReady = errors.New("replica is not ready")

// Ready returns nil when this replica can start runs now, or an error that
// wraps ErrNotReady.
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

// Explainer returns an Explainer for the jobs of this replica, those added at
// run time too, whose history is kept for so long.
func (s *Scheduler) Explainer(keep time.Duration) *Explainer {
	x := NewExplainer(s.options.Store, nil, keep)
	x.Pauses = s.options.Store.Pauses
	x.Job = func(name string) (Job, bool) {
		if e := s.table.get(name); e != nil {
			return e.Job, true
		}
		return Job{}, false
	}
	x.hash = func(name string) string {
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

// Session returns the id of this replica's session, or a zero id where there
// is none.
func (s *Scheduler) Session() uuid.UUID {
	if l := s.keeper.session(); l != nil {
		return l.ID
	}
	return uuid.Nil
}

// Upcoming returns the scheduled time of each job of this replica's cron table that starts
// first after from, the soonest first, at most n of them.
func (s *Scheduler) Upcoming(from time.Time, n int) []ScheduledFiring {
	return s.table.upcoming(from, n)
}

// LongestWait returns how long a firing of a job of this replica's cron table waits
// for a lock that is held, or limit where that is shorter; false where the job is
// not this replica's to tell of. A firing waits no longer than to the job's next
// scheduledAt, either.
func (s *Scheduler) LongestWait(job string, limit time.Duration) (time.Duration, bool) {
	return s.table.longestWait(job, limit)
}

// Scheduled times returns the first scheduled times after from of one job of this replica's cron
// table, at most n of them; none of a job that is not its own to fire.
func (s *Scheduler) ScheduledTimes(job string, from time.Time, n int) []time.Time {
	return s.table.scheduledTimes(job, from, n)
}

// ClockOffset returns how far the store's clock is ahead of this machine's,
// as last measured; 0 until it was.
func (s *Scheduler) ClockOffset() time.Duration { return s.engine.clock.Offset() }

// ServerLists returns how many different lists of stage-1 servers the living
// replicas have, as last looked; 0 before the first look. More than one means
// that they look for one lock on different servers.
func (s *Scheduler) ServerLists() int { return int(s.drift.servers.number.Load()) }

// CronTables returns how many different cron tables the configurations of the
// living replicas have, as ServerLists does the servers.
func (s *Scheduler) CronTables() int { return int(s.drift.table.number.Load()) }
