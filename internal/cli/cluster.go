package cli

import (
	"context"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// cluster is what commands ask of a cluster and do in it. A [local] uses the configured store, and
// a [remote.Client] the API of a replica. Both give the same answers, and errors that wrap the same
// errors of package storage.
type cluster interface {
	state
	history
	control
	backfills
}

// state is the present state of a cluster. Lists are ordered as in the API, and not nil.
type state interface {
	// Overview reports a store that does not answer as a problem of the status.
	Overview(ctx context.Context) (admin.Overview, error)
	Jobs(ctx context.Context) ([]admin.Job, error)
	Job(ctx context.Context, name string) (admin.Job, error)
	Locks(ctx context.Context) ([]admin.Lock, error)
	Replicas(ctx context.Context) ([]admin.Replica, error)
	Databases(ctx context.Context) ([]admin.Database, error)
	Pauses(ctx context.Context) ([]storage.Pause, error)
}

// history is what happened in a cluster.
type history interface {
	// Runs uses Job, States, Replica, From, Until and Limit of the filter.
	Runs(ctx context.Context, f storage.RunFilter) ([]storage.Record, error)
	Run(ctx context.Context, id uuid.UUID) (admin.RunDetail, error)
	Attempt(ctx context.Context, run uuid.UUID, n int) (storage.RunAttempt, error)
	// Watch makes a running run save its output. Without it, Run has the output of runs that ended.
	Watch(ctx context.Context, run uuid.UUID) error
	// Wait is operations.Operations.Wait.
	Wait(ctx context.Context, run uuid.UUID) (storage.Record, error)
	Explain(ctx context.Context, job, at string) (explain.Explanation, error)
	// Audit uses Actor, Action, Target and Limit of the filter.
	Audit(ctx context.Context, f storage.AuditFilter) ([]storage.Audited, error)
	// ExportAudit calls write for each page, oldest first. It also uses Since and Until. Limit is
	// the size of a page.
	ExportAudit(ctx context.Context, f storage.AuditFilter,
		write func([]storage.Audited) error) error
	// Undelivered uses Webhook, GivenUp and Limit of the filter.
	Undelivered(ctx context.Context, f storage.UndeliveredFilter) ([]storage.Undelivered, error)
}

// control is the actions of operators: those of operations.Operations. Reason is for the audit log.
type control interface {
	Trigger(ctx context.Context, reason string, r storage.TriggerRequest) (storage.Triggered, error)
	Pause(ctx context.Context, reason string, target storage.Target) (storage.Pause, error)
	Resume(ctx context.Context, reason string, target storage.Target) (storage.Pause, error)
	Cancel(ctx context.Context, reason string, run uuid.UUID) (storage.Record, error)
	Release(ctx context.Context, reason string, r storage.ReleaseRequest) (admin.Released, error)
	Drain(ctx context.Context, reason string, session uuid.UUID, drain bool) error
	RemoveReplica(ctx context.Context, reason string, session uuid.UUID) error
	// PutJob adds the job of a text in YAML or JSON. With replace, it changes an added job.
	PutJob(ctx context.Context, reason string, text []byte, replace bool) (storage.Spec, error)
	RemoveJob(ctx context.Context, reason, name string) error
	DeliverAgain(ctx context.Context, reason string,
		delivery uuid.UUID) (storage.Undelivered, error)
}
