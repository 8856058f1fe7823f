package jobs

import (
	"encoding/json"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/locking"
)

// Run describes a run and its current attempt to the handler. Its fields do not change; its methods
// may be called concurrently.
type Run struct {
	ID          uuid.UUID
	Job         string
	ScheduledAt time.Time // the scheduled time, the same on every replica
	Key         string    // of the trigger or the backfill that added the run, else empty
	KeyActor    string    // who chose the key of a trigger: each actor has keys of its own
	Attempt     int       // from 1
	Recovery    int       // 0, or the number of the recovery
	Replica     string
	Token       Token // the fencing token, for other systems, which should refuse smaller ones
	// Params are the params of the handler: the job's, overridden by the trigger's. Nil stands for
	// {}.
	Params json.RawMessage

	attempt *attempt.Attempt[*Run, Tx]
}

// NewRun returns a Run without a store, for tests of middleware and of handlers that use no fenced
// transactions. For other handlers, use package holdfasttest.
func NewRun(job string, scheduledAt time.Time, log zerolog.Logger) *Run {
	run := Run{ID: uuid.New(), Job: job, ScheduledAt: scheduledAt, Attempt: 1, Replica: "test",
		Token: 1}
	run.attempt = &attempt.Attempt[*Run, Tx]{NewLog: func() zerolog.Logger { return log },
		Output: output.NewTail(output.Max)}
	return &run
}

// With returns a copy of the run with the part that its handler does not see. It is for the engine
// and the stores, as Internal is: other modules cannot make the key.
func (r Run) With(key attempt.Key, a *attempt.Attempt[*Run, Tx]) *Run {
	key.Check()
	r.attempt = a
	return &r
}

// Internal returns the part of the run that its handler does not see.
func (r *Run) Internal(key attempt.Key) *attempt.Attempt[*Run, Tx] {
	key.Check()
	return r.attempt
}

// Log returns the run's logger. It writes to the replica's log and to the run's output.
func (r *Run) Log() *zerolog.Logger { return r.attempt.Log() }

// Output returns the writer for the output of the run. The store keeps the last 64 KiB (4 KiB for a
// run that succeeded).
func (r *Run) Output() io.Writer { return r.attempt.Output }

// OutputText returns the output so far, as the store keeps it: valid UTF-8 without NUL.
func (r *Run) OutputText() string { return r.attempt.Output.Text(output.Max) }

// Token is the fencing token of a claim. It grows with each claim of the cluster: of two runs on
// one resource the later has the larger token. 0 is no token.
type Token = locking.Token
