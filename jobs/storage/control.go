package storage

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Control executes actions of operators, and returns their effects and records.
type Control interface {
	Actions
	// ControlState returns what the session must obey. For a nil session it returns what all
	// sessions must obey. If since is the current Generation, it leaves out Pauses and Specs, which
	// have not changed.
	ControlState(ctx context.Context, session uuid.UUID, since int64) (ControlState, error)
	// Listen calls notify once when it begins to listen, and after each action. It may miss
	// actions, and triggers whose runs have been adopted. It returns when ctx ends or its
	// connection fails, with the reason.
	Listen(ctx context.Context, notify func()) error
	// Pauses returns the pauses that cover the job and were active between from and until, the
	// oldest first.
	Pauses(ctx context.Context, job, group string, from, until time.Time) ([]Pause, error)
	// Audit returns a page of the audit log, the youngest entry first unless the filter says
	// otherwise.
	Audit(ctx context.Context, f AuditFilter) ([]Audited, error)
}

// ControlState is what operators want a replica to obey.
type ControlState struct {
	// Generation grows with every change of Pauses and Specs, and with other changes.
	Generation int64
	Pauses     []Pause // the active ones
	Specs      []Spec  // sorted by job, without removed ones
	// Cancels are the session's runs to cancel, with the actor of each request.
	Cancels  map[uuid.UUID]string
	Draining bool // the session is draining
	// Watched are the session's running runs whose page is open.
	Watched []uuid.UUID
}
