package app

import (
	"context"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// openScheduler makes the actions of operators and the scheduler.
func (r *Replica) openScheduler(_ context.Context, config *configs.Config) (err error) {
	specs := SpecParser{Config: r.config.Load, Registry: r.registry}
	publish := func(run storage.Record) { r.scheduler.PublishCancelled(run) }
	r.operations = NewOperations(specs, r.table, r.timed, r.store.Outbox, r.locker,
		config.Replica.Name, publish, r.log)
	if r.scheduler, err = engine.New(r.schedulerOptions(config, specs)); err != nil {
		return err
	}
	r.metrics.Expect(r.table)
	return r.addSources()
}

// Scheduler returns the scheduler of an open replica, for package holdfasttest.
func (r *Replica) Scheduler() *engine.Scheduler { return r.scheduler }

// Config returns the current configuration, which must not be changed.
func (r *Replica) Config() *configs.Config { return r.config.Load() }

func (r *Replica) schedulerOptions(config *configs.Config, specs SpecParser) engine.Options {
	options := engine.Options{
		Store:     r.timed,
		RunStore:  r.store.RunStore,
		Databases: r.databasesOfEngine(),
		Locker:    r.locker,
		Registry:  r.registry,
		Jobs:      r.table,
		Build:     specs.Build,

		Replica:          config.Replica.Name,
		Version:          Version(),
		Succeeds:         !config.Replica.Drawn,
		LockServers:      lockServers(config),
		SkipWithoutLocks: config.Locking.WhenUnavailable == configs.SkipFirings,

		Workers:        config.Workers,
		CatchUp:        config.CatchUp.Workers,
		Heartbeat:      config.Session.Heartbeat,
		SessionTTL:     config.Session.Expires,
		ShutdownGrace:  config.ShutdownGrace,
		MaxClockOffset: config.Clock.MaxOffset,
		KeepHistory:    config.History.Keep,
		SealAudit:      config.Audit.Chain,

		Middleware: r.middleware,
		Listeners:  r.listeners,
		Observer:   r.metrics.Observe,
		Tracing:    r.traces,
		Log:        r.log,
		LogOutput:  r.output,
	}
	return options
}
