package jobs

import (
	"encoding/json"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
)

// Run is one attempt of a run, as its handler sees it. Its fields do not
// change; its methods may be called concurrently.
type Run struct {
	ID          uuid.UUID
	Job         string
	ScheduledAt time.Time // the nominal instant, the same on every replica
	Key         string    // of a manual trigger, else empty
	Attempt     int       // from 1
	Recovery    int       // 0, or the how-manieth recovery of the firing
	Replica     string
	Token       Token // to pass on to other systems, which should refuse smaller ones
	// Params are what its handler was given: the job's, and over them those of
	// the moment. Nil stands for {}.
	Params json.RawMessage

	store     Store
	log       zerolog.Logger
	output    *Tail
	completed completion
	kept      keepsake
}

// NewRun returns a Run for tests of handlers, with no store behind it.
func NewRun(job string, scheduledAt time.Time, log zerolog.Logger) *Run {
	output := NewTail(maxOutput)
	return &Run{ID: uuid.New(), Job: job, ScheduledAt: scheduledAt, Attempt: 1, Replica: "test",
		Token: 1, log: log, output: output}
}

// Log returns the run's logger: what it writes goes to the replica's log and
// is kept with the run.
func (r *Run) Log() *zerolog.Logger { return &r.log }

// Output returns where a handler may write text that is to be kept with the
// run. The last 64 KiB are kept (4 KiB for a run that succeeded).
func (r *Run) Output() io.Writer { return r.output }

// OutputText returns what has been written to Output so far, as it is kept:
// valid UTF-8 without NUL.
func (r *Run) OutputText() string { return r.output.Text(maxOutput) }

// Store returns the store that holds the run's claim.
func (r *Run) Store() Store { return r.store }

// MarkCompleted says that the run's end was recorded in a transaction of its
// own, so that it is not recorded again. Stores call it; handlers don't.
func (r *Run) MarkCompleted(state State) { r.completed.set(state) }

// StoredRun returns the Run of a granted start, for programs that drive a
// store themselves and for tests of stores.
func StoredRun(store Store, r StartRequest, token Token) *Run {
	return &Run{
		ID: r.Run, Job: r.Firing.Job, ScheduledAt: r.Firing.ScheduledAt, Key: r.Firing.Key,
		Attempt: r.Attempt, Recovery: r.Firing.Recovery,
		Token: token, store: store, log: zerolog.Nop(), output: NewTail(maxOutput),
	}
}
