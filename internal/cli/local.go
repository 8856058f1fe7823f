package cli

import (
	"cmp"
	"context"
	"os"
	"os/user"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// local is the configured cluster. It uses the store beside the replicas, and the user of this
// process is the actor.
type local struct {
	*admin.View
	table   *localTable
	ops     *operations.Operations
	store   app.Storage
	backend *app.LockBackend // nil without memcached
}

// actionOf returns the actor of this process, its user, and a reason for the audit log.
func actionOf(reason string) storage.Action {
	actor := os.Getenv("USER")
	if account, err := user.Current(); err == nil {
		actor = account.Username
	}
	return storage.Action{Actor: cmp.Or(actor, "unknown"), Via: "cli", Reason: reason}
}

// Overview implements state.
func (l *local) Overview(ctx context.Context) (admin.Overview, error) {
	if l.backend != nil {
		l.backend.CheckLocks(ctx)
	}
	if err := l.table.read(ctx); err != nil {
		return admin.Overview{}, err
	}
	return l.View.Overview(ctx), nil
}

// Jobs implements state.
func (l *local) Jobs(ctx context.Context) ([]admin.Job, error) {
	if err := l.table.read(ctx); err != nil {
		return nil, err
	}
	return l.View.Jobs(ctx)
}

// Runs implements history.
func (l *local) Runs(ctx context.Context, f storage.RunFilter) ([]storage.Record, error) {
	if len(f.States) == 0 || slices.Contains(f.States, jobs.Waiting) {
		if err := l.table.read(ctx); err != nil {
			return nil, err
		}
	}
	return l.View.Runs(ctx, f)
}

// Run implements history.
func (l *local) Run(ctx context.Context, id uuid.UUID) (admin.RunDetail, error) {
	if err := l.table.read(ctx); err != nil {
		return admin.RunDetail{}, err
	}
	return l.View.Run(ctx, id)
}

// Watch implements history.
func (l *local) Watch(ctx context.Context, run uuid.UUID) error { return l.store.Watch(ctx, run) }

// Wait implements history.
func (l *local) Wait(ctx context.Context, run uuid.UUID) (storage.Record, error) {
	record, err := l.ops.Wait(ctx, run)
	return admin.PlainRun(record), err
}

// ExportAudit implements history.
func (l *local) ExportAudit(ctx context.Context, f storage.AuditFilter,
	write func([]storage.Audited) error) error {
	f.OldestFirst = true
	for {
		page, err := l.Audit(ctx, f)
		if err != nil {
			return err
		}
		if err := write(page); err != nil {
			return err
		}
		if len(page) < f.Limit {
			return nil
		}
		last := page[len(page)-1]
		f.After = &storage.RunCursor{CreatedAt: last.At, ID: last.ID}
		f.Since = time.Time{} // the cursor is later
	}
}

// Trigger implements control.
func (l *local) Trigger(ctx context.Context, reason string,
	r storage.TriggerRequest) (storage.Triggered, error) {
	run, err := l.ops.Trigger(ctx, actionOf(reason), r)
	return admin.PlainTriggered(run), err
}

// Pause implements control.
func (l *local) Pause(ctx context.Context, reason string,
	target storage.Target) (storage.Pause, error) {
	p, err := l.ops.Pause(ctx, actionOf(reason), target)
	return admin.PlainPause(p), err
}

// Resume implements control.
func (l *local) Resume(ctx context.Context, reason string,
	target storage.Target) (storage.Pause, error) {
	p, err := l.ops.Resume(ctx, actionOf(reason), target)
	return admin.PlainPause(p), err
}

// Cancel implements control.
func (l *local) Cancel(ctx context.Context, reason string,
	run uuid.UUID) (storage.Record, error) {
	record, err := l.ops.Cancel(ctx, actionOf(reason), run)
	return admin.PlainRun(record), err
}

// Release implements control.
func (l *local) Release(ctx context.Context, reason string,
	r storage.ReleaseRequest) (admin.Released, error) {
	released, err := l.ops.Release(ctx, actionOf(reason), r)
	return admin.ReleasedOf(released), err
}

// Drain implements control.
func (l *local) Drain(ctx context.Context, reason string, session uuid.UUID, drain bool) error {
	return l.ops.Drain(ctx, actionOf(reason), session, drain)
}

// RemoveReplica implements control.
func (l *local) RemoveReplica(ctx context.Context, reason string, session uuid.UUID) error {
	return l.ops.RemoveReplica(ctx, actionOf(reason), session)
}

// PutJob implements control.
func (l *local) PutJob(ctx context.Context, reason string, text []byte,
	replace bool) (storage.Spec, error) {
	var version int64
	if replace {
		version = operations.AnyVersion
	}
	return l.ops.PutJob(ctx, actionOf(reason), text, version)
}

// RemoveJob implements control.
func (l *local) RemoveJob(ctx context.Context, reason, name string) error {
	return l.ops.RemoveJob(ctx, actionOf(reason), name, operations.AnyVersion)
}

// DeliverAgain implements control.
func (l *local) DeliverAgain(ctx context.Context, reason string,
	delivery uuid.UUID) (storage.Undelivered, error) {
	return l.ops.DeliverAgain(ctx, actionOf(reason), delivery)
}

// Backfills implements backfills.
func (l *local) Backfills(ctx context.Context,
	f storage.BackfillFilter) ([]storage.Backfill, error) {
	list, err := l.ops.Backfills(ctx, f)
	return append([]storage.Backfill{}, list...), err
}

// Backfill implements backfills.
func (l *local) Backfill(ctx context.Context, id uuid.UUID) (storage.Backfill, error) {
	return l.ops.ReadBackfill(ctx, id)
}

// PlanBackfill implements backfills.
func (l *local) PlanBackfill(ctx context.Context,
	r operations.BackfillRequest) (operations.BackfillPlan, error) {
	return l.ops.PlanBackfill(ctx, r)
}

// AddBackfill implements backfills.
func (l *local) AddBackfill(ctx context.Context, reason, key string,
	r operations.BackfillRequest) (storage.Backfill, error) {
	by := actionOf(reason)
	by.Key = key
	return l.ops.Backfill(ctx, by, r)
}

// CancelBackfill implements backfills.
func (l *local) CancelBackfill(ctx context.Context, reason string,
	id uuid.UUID) (storage.Backfill, error) {
	return l.ops.CancelBackfill(ctx, actionOf(reason), id)
}
