package storage

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Control executes operator actions, and returns their effects and records.
type Control interface {
	Actions
	// ControlState returns what the session must obey; with a nil session what applies to all. If
	// the generation equals the argument since, the part that applies to all sessions has not
	// changed. Then only Generation and the fields of the session itself are set: Cancels, Draining
	// and Watched.
	ControlState(ctx context.Context, session uuid.UUID, since int64) (ControlState, error)
	// Listen calls notify once when it begins to listen, and after each action, until ctx ends or
	// the connection fails. It returns the reason. Actions can be missed. A store of one process
	// returns only when ctx ends.
	Listen(ctx context.Context, notify func()) error
	// Pauses returns the pauses that cover a job of that group and were active at any time between
	// the times from and until, the oldest first.
	Pauses(ctx context.Context, job, group string, from, until time.Time) ([]Pause, error)
	// Audit returns a page of the audit log, the youngest entry first unless the filter says
	// otherwise.
	Audit(ctx context.Context, f AuditFilter) ([]Audited, error)
}

// ControlState is what operators want a replica to obey.
type ControlState struct {
	// Generation grows with every action that replicas must obey.
	Generation int64
	Pauses     []Pause // the active ones
	Specs      []Spec  // sorted by job, without removed ones
	// Cancels are the session's runs that must end, with the actor of each request.
	Cancels  map[uuid.UUID]string
	Draining bool // the session must start nothing except further attempts
	// Watched are the session's running runs whose page is open.
	Watched []uuid.UUID
}
