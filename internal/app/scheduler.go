package app

import (
	"context"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// openScheduler makes the actions of operators and the scheduler.
func (r *Replica) openScheduler(_ context.Context, config *configs.Config) (err error) {
	specs, table := SpecParser{Config: r.config.Load, Registry: r.registry}, Jobs(config)
	var scheduler *engine.Scheduler // operations may be used after Close, without r.scheduler
	configured := func(name string) (jobs.Job, bool) { return scheduler.Configured(name) }
	publish := func(run storage.Record) { scheduler.PublishCancelled(run) }
	control := startingTriggers{r.timed, func() *engine.Scheduler { return scheduler }}
	r.operations = NewOperations(specs, configured, control, r.store.Outbox, r.locker,
		config.Replica.Name, publish, r.log)
	if scheduler, err = engine.New(r.schedulerOptions(config, table, specs)); err != nil {
		return err
	}
	r.scheduler = scheduler
	r.metrics.Expect(table)
	return r.addSources()
}

// startingTriggers is a store whose triggers start on this replica if it has a free worker.
type startingTriggers struct {
	Control
	scheduler func() *engine.Scheduler
}

// Trigger implements storage.Actions.
func (c startingTriggers) Trigger(ctx context.Context, a storage.Action,
	r storage.TriggerRequest) (storage.Triggered, error) {
	return c.scheduler().Trigger(ctx, a, r)
}

// Scheduler returns the scheduler of an open replica, for package holdfasttest.
func (r *Replica) Scheduler() *engine.Scheduler { return r.scheduler }

// Config returns the current configuration, which must not be changed. It has no jobs while the
// replica runs.
func (r *Replica) Config() *configs.Config { return r.config.Load() }

func (r *Replica) schedulerOptions(config *configs.Config, table []jobs.Job,
	specs SpecParser) engine.Options {
	options := engine.Options{
		Store:     r.timed,
		RunStore:  r.store.RunStore,
		Databases: r.databasesOfEngine(),
		Locker:    r.locker,
		Registry:  r.registry,
		Jobs:      table,
		Build:     specs.Build,

		Replica:          config.Replica.Name,
		Version:          Version(),
		ReplaceEarlier:   !config.Replica.Drawn,
		LockServers:      lockServers(config),
		SkipWithoutLocks: config.Locking.WhenUnavailable == configs.SkipFirings,

		Workers:        config.Workers,
		CatchUp:        config.CatchUp.Workers,
		Heartbeat:      config.Session.Heartbeat,
		SessionTTL:     config.Session.Expires,
		ShutdownGrace:  config.ShutdownGrace,
		MaxClockOffset: config.Clock.MaxOffset,
		KeepHistory:    config.History.Keep,
		KeepTriggered:  config.History.KeepTriggered,
		SealAudit:      config.Audit.Chain,
		Unpaced:        r.shared != nil && r.shared.Unpaced,

		Middleware: r.middleware,
		Listeners:  r.listeners,
		Observer:   r.metrics.Observe,
		Tracing:    r.traces,
		Log:        r.log,
		LogOutput:  r.output,
	}
	return options
}
