package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Scheduler is one replica of the cluster. It fires jobs, runs them, and takes part in the upkeep.
// Its methods may be called concurrently.
type Scheduler struct {
	options      Options
	log          zerolog.Logger
	registry     *jobs.Registry
	table        *cronTable
	clock        *clusterClock
	clockLimit   *clockLimit
	workers      *workers
	active       *active
	ready        *ready
	eventBus     *eventBus
	events       *events
	activation   *activation
	keeper       *keeper
	controlState *controlState
	ranking      *ranking
	lookout      *lookout
	heldLocks    *heldLocks
	dispatcher   *dispatcher
	upkeep       *upkeep
	backfills    *backfiller
	wakes        *wakes
	triggers     *triggers
	retention    *retention
	drift        *drift
	heartbeats   heartbeatLog
	sealer       *sealer
	intervals    *pollIntervals
	paces        paces
	stopping     chan struct{} // closed when Run begins to stop
	overtime     chan struct{} // closed one session TTL later
}

// Run registers the jobs and fires them until ctx ends. Then it starts nothing more, waits for runs
// during the grace period, cancels the rest, records their ends, gives back locks and session, and
// returns nil. While the store is unavailable it retries. It returns an error if the store refuses
// the first session or its jobs. It must be called once.
func (s *Scheduler) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s.log.Info().Int("jobs", s.table.len()).Int("workers", s.options.Workers).
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
	front.Go(func() { s.lookout.run(ctx) })
	front.Go(func() { s.upkeep.run(ctx) })
	front.Go(func() { s.drift.run(ctx) })
	front.Go(func() { s.retention.run(ctx) })
	// cancellations are obeyed until the last run has ended
	behind.Go(func() { s.controlState.run(background) })
	front.Go(func() {
		<-ctx.Done()
		close(s.stopping)
		signal(s.keeper.heartbeatNow) // so that others adopt the waiting runs at once
	})
	behind.Go(func() {
		<-ctx.Done()
		if sleep.For(background, s.options.SessionTTL) == nil {
			close(s.overtime)
		}
	})
	front.Wait()
	s.drain()
	stopBackground()
	behind.Wait()
	s.log.Info().Msg("scheduler stopped")
	return refused
}

// background returns the services that firings need until the last of them has ended.
func (s *Scheduler) background() []func(context.Context) {
	serve := []func(context.Context){s.eventBus.run}
	if locker := s.options.Locker; locker != nil {
		serve = append(serve, s.heldLocks.run, func(ctx context.Context) {
			if err := locker.Run(ctx); err != nil && ctx.Err() == nil {
				s.log.Error().Err(err).Msg("renewal of advisory locks failed")
			}
		})
	}
	return serve
}

// drain waits for the firings in progress. After the grace period it cancels them.
func (s *Scheduler) drain() {
	ended := make(chan struct{})
	go func() {
		s.dispatcher.wait()
		close(ended)
	}()
	s.log.Info().Int("runs", s.active.len()).Dur("grace", s.options.ShutdownGrace).
		Msg("stopping, waiting for runs")
	select {
	case <-ended:
		return
	case <-time.After(s.options.ShutdownGrace):
	}
	s.log.Warn().Int("runs", s.active.len()).Msg("grace period ended, runs cancelled")
	s.active.cancelAll(jobs.ErrShutdown)
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
	case s.controlState.draining():
		return fmt.Errorf("%w: it was drained by an operator", ErrNotReady)
	}
	if err := s.clockLimit.check(time.Now()); err != nil {
		return fmt.Errorf("%w: %w", ErrNotReady, err)
	}
	return nil
}

// Table returns the cron table of this replica, including added jobs.
func (s *Scheduler) Table() explain.Table { return explainedTable{s.table} }

// Session returns the id of this replica's session, or a zero id without one.
func (s *Scheduler) Session() uuid.UUID { return s.keeper.id() }

// EventsDropped returns how many events were dropped because listeners were too slow.
func (s *Scheduler) EventsDropped() int64 { return s.eventBus.droppedLen() }

// PublishCancelled publishes the end of a waiting run that belonged to no replica, and that an
// action on this replica cancelled.
func (s *Scheduler) PublishCancelled(r storage.Record) { s.events.cancelled(r) }

// Upcoming returns, for each job that this replica fires, the first firing that starts after from,
// the soonest first, at most n of them.
func (s *Scheduler) Upcoming(from time.Time, n int) []ScheduledFiring {
	return s.table.upcoming(from, n)
}

// LongestWait returns how long a firing of the job may wait for a held lock, by the policies of the
// job, or limit if that is shorter. It returns false if this replica does not fire the job. It
// ignores that a firing also ends its wait at the job's next scheduled time.
func (s *Scheduler) LongestWait(job string, limit time.Duration) (time.Duration, bool) {
	return s.table.longestWait(job, limit)
}

// WaitEnd returns when a waiting run will stop waiting for its blocker, by the policies of its job.
// It returns false if that is not known: this replica does not fire the job, or the run has no
// blocker.
func (s *Scheduler) WaitEnd(r storage.Record) (storage.WaitEnd, bool) { return s.table.waitEnd(r) }

// ScheduledTimes returns the first scheduled times after from of a job that this replica fires, at
// most n of them; none for other jobs.
func (s *Scheduler) ScheduledTimes(job string, from time.Time, n int) []time.Time {
	return s.table.scheduledTimes(job, from, n)
}

// ClockOffset returns how far the store's clock is ahead of this machine's at the last measurement;
// 0 before the first.
func (s *Scheduler) ClockOffset() time.Duration { return s.clock.Offset() }

// ServerLists returns how many different lists of memcached servers the live replicas have; 0
// before the first comparison. If there is more than one, replicas look for the same lock on
// different servers.
func (s *Scheduler) ServerLists() int { return s.drift.serverLists() }

// Heartbeats returns the heartbeats of a session that this replica saw in the last 10 minutes,
// oldest first.
func (s *Scheduler) Heartbeats(session uuid.UUID) []storage.HeartbeatView {
	return s.heartbeats.of(session)
}

// CronTables returns how many different cron tables the configurations of the live replicas have; 0
// before the first comparison.
func (s *Scheduler) CronTables() int { return s.drift.cronTables() }
