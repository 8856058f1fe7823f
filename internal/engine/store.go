package engine

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Store is what a replica needs of the store. Each part of the replica has a smaller interface of
// its own, with the methods that it calls.
type Store interface {
	storage.Sessions
	storage.Firings
	storage.Upkeep
	storage.Dependents
	backfillStore
	storage.JobProgress
	controlReader
	outputSaver
	runReader
	driftReader
	auditSealer
	triggerStore
	// ClusterID returns the id of the cluster: see storage.Store.
	ClusterID() uuid.UUID
}

// triggerStore adds runs of triggers.
type triggerStore interface {
	Trigger(ctx context.Context, a storage.Action,
		r storage.TriggerRequest) (storage.Triggered, error)
}

// auditSealer adds links to the audit log.
type auditSealer interface {
	SealAudit(ctx context.Context, limit int) (int, error)
	UnsealedAge(ctx context.Context) (time.Duration, error)
}

// definitionStore registers the definitions of a session.
type definitionStore interface {
	Register(ctx context.Context, session uuid.UUID,
		definitions []storage.Definition) (map[string]int64, error)
	Withdraw(ctx context.Context, session uuid.UUID, table string, jobs []string) error
	Versions(ctx context.Context) (map[string]storage.ActiveDefinition, error)
}

// sessionStore opens, renews and ends sessions.
type sessionStore interface {
	Open(ctx context.Context, s storage.Session) error
	Heartbeat(
		ctx context.Context, session uuid.UUID, v storage.ReplicaStatus,
	) (storage.HeartbeatReply, error)
	End(ctx context.Context, session uuid.UUID) error
}

// controlReader reads what operators want the replica to obey.
type controlReader interface {
	ControlState(ctx context.Context, session uuid.UUID,
		since int64) (storage.ControlState, error)
	Listen(ctx context.Context, heard func()) error
}

// outputSaver stores the output of watched runs.
type outputSaver interface {
	SaveOutput(ctx context.Context, outputs []storage.Output) error
}

// runReader reads one run.
type runReader interface {
	Run(ctx context.Context, id uuid.UUID) (storage.Record, error)
}

// driftReader reads how the configurations of the replicas differ.
type driftReader interface {
	Drift(ctx context.Context, limit int) ([]storage.JobDrift, error)
}

// pruner deletes old history.
type pruner interface {
	Prune(ctx context.Context, session uuid.UUID, r storage.PruneRequest) (storage.Pruned, error)
}
