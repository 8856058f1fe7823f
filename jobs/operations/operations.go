package operations

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// Control is what Operations needs of the store.
type Control interface {
	storage.Actions
	ControlState(ctx context.Context, session uuid.UUID, since int64) (storage.ControlState, error)
	Audit(ctx context.Context, f storage.AuditFilter) ([]storage.Audited, error)
}

// Lookup is what permissions, backfills and triggers with a Wait of 0 need of the store.
type Lookup interface {
	Job(ctx context.Context, name string) (storage.JobView, error)
	Run(ctx context.Context, id uuid.UUID) (storage.Record, error)
	FiringRuns(ctx context.Context, f storage.Firing) ([]storage.Record, error)
	Now(ctx context.Context) (time.Time, error)
	Replicas(ctx context.Context) ([]storage.ReplicaView, error)
	storage.BackfillHistory
}

// Options are the options of Operations. Control and Registry are required. Added jobs also need
// Build and Complete.
type Options struct {
	Control Control
	Outbox  storage.Outbox // nil if the store does not support webhooks
	// Lookup finds backfills, replicas, the job of a run, and the group of a job. It may be nil if
	// no subject has limited permissions, and no one uses backfills or triggers with a Wait of 0.
	Lookup   Lookup
	Registry *jobs.Registry
	// Configured returns a job of the configuration by its name. It may be called concurrently. nil
	// means that the configuration has no jobs.
	Configured func(name string) (job jobs.Job, found bool)
	// Build returns the Job that the text of a Spec describes.
	Build func(text json.RawMessage) (jobs.Job, error)
	// Complete checks the text of a job that a user wrote. It returns the text of the Spec, or a
	// *SpecError. added has the schedules of the added jobs, on which the job may depend.
	Complete func(written []byte, added map[string]schedule.Schedule) (json.RawMessage, error)
	// Cancelled is called for each waiting run that an action cancelled and that belonged to no
	// replica. It may be nil. It must not block.
	Cancelled func(run storage.Record)
	Locker    *locking.Locker // nil without memcached, or if it is not reachable
	Replica   string          // the replica that executes actions; "" if none does
	Log       zerolog.Logger
}

// Operations executes operator actions. The subject of the context needs the permission for each
// action (package permission). Otherwise the method returns a *permission.DeniedError. A context
// without a subject may do everything.
//
// An empty Actor of an Action means "program", and an empty Via means "go". Methods return the
// errors of Control, and a *storage.BadInputError for invalid input. They may be called
// concurrently.
type Operations struct {
	options Options

	mu    sync.Mutex
	heard storage.ControlState // the last one read; valid while its generation is current
}

// New returns Operations with these options.
func New(o Options) *Operations {
	return &Operations{options: o}
}

// configured returns the job of that name of the configuration.
func (o *Operations) configured(name string) (jobs.Job, bool) {
	if o.options.Configured == nil {
		return jobs.Job{}, false
	}
	return o.options.Configured(name)
}

// action sets the defaults of the action, and refuses invalid ones. The proof is that of the
// context's subject.
func (o *Operations) action(ctx context.Context, a storage.Action) (storage.Action, error) {
	who, _ := permission.IdentityOf(ctx)
	a.Proof = cmp.Or(a.Proof, who.Proof, "none")
	a.Actor, a.Via, a.Replica = cmp.Or(a.Actor, "program"), cmp.Or(a.Via, "go"),
		cmp.Or(a.Replica, o.options.Replica)
	return a, a.Check()
}

// job returns a job of the configuration or an added one.
func (o *Operations) job(ctx context.Context, name string) (jobs.Job, error) {
	if job, found := o.configured(name); found {
		return job, nil
	}
	specs, err := o.Specs(ctx)
	if err != nil {
		return jobs.Job{}, err
	}
	i := slices.IndexFunc(specs, func(s storage.Spec) bool { return s.Job == name })
	if i < 0 {
		return jobs.Job{}, fmt.Errorf("job %q: %w in this configuration; use a "+
			"replica that has the job", name, storage.ErrNotFound)
	}
	return o.options.Build(specs[i].Text)
}

// controlState returns the control state that applies to all replicas. The store sends it only if
// it has changed, because pages ask every few seconds.
func (o *Operations) controlState(ctx context.Context) (storage.ControlState, error) {
	o.mu.Lock()
	heard := o.heard
	o.mu.Unlock()
	now, err := o.options.Control.ControlState(ctx, uuid.Nil, heard.Generation)
	if err != nil || now.Generation == heard.Generation && heard.Generation != 0 {
		return heard, err
	}
	o.mu.Lock()
	o.heard = now
	o.mu.Unlock()
	return now, nil
}

// Cancel ends a waiting run at once, and a running run through its replica. The context of the
// handler then ends with jobs.ErrCancelled. Cancel returns storage.ErrConflict if the run has
// ended.
func (o *Operations) Cancel(ctx context.Context, a storage.Action,
	run uuid.UUID) (storage.Record, error) {
	a, err := o.action(ctx, a)
	if err != nil {
		return storage.Record{}, err
	}
	if err := o.mayOnRun(ctx, permission.Cancel, run); err != nil {
		return storage.Record{}, err
	}
	r, err := o.options.Control.Cancel(ctx, a, run)
	if err == nil && r.State == jobs.Cancelled && r.Replica == "" && o.options.Cancelled != nil {
		o.options.Cancelled(r)
	}
	return r, of("run "+run.String(), err)
}

// Release takes a lock away from its holder, which cannot commit any more. It also removes the
// advisory lock. The token of the request is that of the holder as last seen. If another run holds
// the lock now, Release returns storage.ErrConflict.
func (o *Operations) Release(ctx context.Context, a storage.Action,
	r storage.ReleaseRequest) (locking.Released, error) {
	a, err := o.action(ctx, a)
	if err != nil {
		return locking.Released{}, err
	}
	if err := permission.RequireOn(ctx, permission.Release,
		func(context.Context) (permission.Target, error) {
			return permission.Target{Kind: permission.Resource, Name: r.Resource.String()}, nil
		}); err != nil {
		return locking.Released{}, err
	}
	released, err := o.options.Control.Release(ctx, a, r)
	if err != nil {
		return locking.Released{}, of(r.Resource.String(), err)
	}
	if o.options.Locker != nil {
		err := o.options.Locker.ClearReleased(ctx, []locking.Released{released})
		if released.Owner.Run != "" { // a lock of a program has no run
			err = errors.Join(err,
				o.options.Locker.Clear(ctx, released.Requests, released.Owner.Run))
		}
		if err != nil {
			o.options.Log.Warn().Err(err).Int64("token", int64(released.Token)).
				Msg("remove released advisory lock failed, it expires")
		}
	}
	return released, nil
}

// Drain drains the replica with this session, or ends its drain if drain is false. Running runs
// continue, with their further attempts. Other replicas adopt the waiting runs that have not
// started. A later session of the replica is not drained.
func (o *Operations) Drain(ctx context.Context, a storage.Action, session uuid.UUID,
	drain bool) error {
	a, err := o.action(ctx, a)
	if err != nil {
		return err
	}
	if err := permission.Require(ctx, permission.Drain, everything()); err != nil {
		return err
	}
	return of("session "+session.String(), o.options.Control.Drain(ctx, a, session, drain))
}

// RemoveReplica removes a lost replica from the status and from lists of replicas. The session is
// one that was lost. If the replica starts again, its new session is listed.
func (o *Operations) RemoveReplica(ctx context.Context, a storage.Action,
	session uuid.UUID) error {
	a, err := o.action(ctx, a)
	if err != nil {
		return err
	}
	if err := permission.Require(ctx, permission.Drain, everything()); err != nil {
		return err
	}
	return of("session "+session.String(), o.options.Control.RemoveReplica(ctx, a, session))
}

// Audit returns entries of the audit log, the youngest first unless the filter says otherwise.
func (o *Operations) Audit(ctx context.Context, f storage.AuditFilter) ([]storage.Audited, error) {
	return o.options.Control.Audit(ctx, f)
}

// of wraps an error of the store with its target, unless its text names the target already.
func of(target string, err error) error {
	if err == nil || errors.Is(err, storage.ErrPaused) || errors.Is(err, storage.ErrBusy) ||
		strings.Contains(err.Error(), target) {
		return err
	}
	return fmt.Errorf("%s: %w", target, err)
}
