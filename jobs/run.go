package jobs

import (
	"encoding/json"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/internal/output"
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

	attempt *attempt.Attempt
}

// NewRun returns a Run for tests of handlers, with no store behind it.
func NewRun(job string, scheduledAt time.Time, log zerolog.Logger) *Run {
	run := Run{ID: uuid.New(), Job: job, ScheduledAt: scheduledAt, Attempt: 1, Replica: "test",
		Token: 1}
	return run.With(&attempt.Attempt{Log: log, Output: output.NewTail(output.Max)})
}

// With returns a copy of the run with the part that its handler does not see. It
// is for the engine and for stores, as Internal is: no other module can make or
// use an Attempt.
func (r Run) With(a *attempt.Attempt) *Run {
	r.attempt = a
	return &r
}

// Internal returns the part of the run that its handler does not see.
func (r *Run) Internal() *attempt.Attempt { return r.attempt }

// Log returns the run's logger: what it writes goes to the replica's log and
// is kept with the run.
func (r *Run) Log() *zerolog.Logger { return &r.attempt.Log }

// Output returns where a handler may write text that is to be kept with the
// run. The last 64 KiB are kept (4 KiB for a run that succeeded).
func (r *Run) Output() io.Writer { return r.attempt.Output }

// OutputText returns what has been written to Output so far, as it is kept:
// valid UTF-8 without NUL.
func (r *Run) OutputText() string { return r.attempt.Output.Text(output.Max) }
