package storage

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
)

// TriggerRequest requests a run by hand.
type TriggerRequest struct {
	Job string
	// Key makes the request idempotent; "" generates a key. Each actor has its own keys for each
	// job. A repeated key returns its run if Params and the time are the same, and otherwise
	// ErrKeyUsed. A run that ended as Skipped frees its key.
	Key string
	// Params override the job's own params, key by key. The caller has checked them for the
	// handler.
	Params json.RawMessage
	// EvenPaused starts the run even if its job is paused. Without it the result is a *PausedError.
	EvenPaused bool
	// Wait is how long the run may wait before it begins. After that it ends as Skipped.
	//
	//   - nil: only the job's deadline applies.
	//   - 0: the trigger returns a *BusyError if another run or lock blocks the run. Otherwise the
	//     run has TriggerGrace to begin.
	//   - Other values are at least 1 s.
	Wait *time.Duration
	// At is the scheduled time of the run; zero: now. The run begins to wait for its start at that
	// time, or at once if At has passed. Wait counts from the beginning of this wait. The job's
	// deadline counts from At. A pause after the trigger does not hold the run back. A Wait of 0 is
	// refused with At or Delay.
	At time.Time
	// Delay is the time from the trigger to the scheduled time. It is set instead of At.
	Delay time.Duration
	// Adopter is a session that adopts the run as soon as the trigger adds it. The store ignores
	// Adopter if the session is not live, or is draining or stopping, or if the run begins to wait
	// later. If the session has the run, the result names its Replica. uuid.Nil: no session adopts
	// it.
	Adopter uuid.UUID
	// Run is the id of the run if the trigger adds one; uuid.Nil: the store draws it. The replica
	// of Adopter sets Run, so that it can track the run before the store has it.
	Run uuid.UUID
}

// RunID returns Run, or a new id.
func (r TriggerRequest) RunID() uuid.UUID {
	if r.Run != uuid.Nil {
		return r.Run
	}
	return uuid.Must(uuid.NewV7())
}

// TriggerGrace is how long a run triggered with a Wait of 0 may take to begin.
const TriggerGrace = 10 * time.Second

// minTriggerWait is the shortest Wait other than 0: a replica may need that long to adopt the run.
const minTriggerWait = time.Second

// ErrBusy says that the run of a trigger cannot begin now. If another run or lock blocks it, the
// error is a *BusyError.
var ErrBusy = errors.New("busy")

// BusyError is the refusal of a trigger with a Wait of 0.
type BusyError struct {
	Job     string
	Blocker RunBlocker
}

// Error names the blocker.
func (e *BusyError) Error() string {
	return fmt.Sprintf("job %s cannot run now (%s): %s", e.Job, e.Blocker.Reason,
		e.Blocker.Words("is held by"))
}

// Unwrap returns ErrBusy.
func (e *BusyError) Unwrap() error { return ErrBusy }

// Triggered is the result of a trigger.
type Triggered struct {
	Record
	// Created is false if the key had this run already.
	Created bool `json:"created"`
	// WaitsFor is the blocker of the run at the time of the trigger; nil if there was none.
	WaitsFor *RunBlocker `json:"waits_for,omitempty"`
}

// Adopted reports whether the trigger has added the run for the Adopter of its request.
func (t Triggered) Adopted() bool { return t.Created && t.Replica != "" }

// RunBlocker is the blocker of a waiting run, with the reason of the wait.
type RunBlocker struct {
	jobs.Blocker
	Reason jobs.Reason `json:"reason"`
}

// Limit returns the longest wait before the run begins; nil if only the job's deadline applies.
func (r TriggerRequest) Limit() *time.Duration {
	if r.AtOnce() {
		return new(TriggerGrace)
	}
	return r.Wait
}

// Begin returns the scheduled time of the run and the time at which it begins to wait, for a
// trigger at now.
func (r TriggerRequest) Begin(now time.Time) (scheduledAt, since time.Time) {
	scheduledAt = now.Add(r.Delay.Truncate(time.Microsecond))
	if !r.At.IsZero() {
		scheduledAt = r.At.UTC().Truncate(time.Microsecond)
	}
	if scheduledAt.Before(now) {
		return scheduledAt, now
	}
	return scheduledAt, scheduledAt
}

// Later reports whether At or Delay is set.
func (r TriggerRequest) Later() bool { return !r.At.IsZero() || r.Delay != 0 }

// SameBegin reports whether the request has the same scheduled time as the earlier trigger that
// added the run. The run must not be a recovery.
func (r TriggerRequest) SameBegin(added Record) bool {
	scheduledAt, _ := r.Begin(added.CreatedAt)
	return scheduledAt.Equal(added.ScheduledAt)
}

// StartBy returns the time by which the run must begin. at is the time at which its wait begins.
// StartBy returns nil if only the job's deadline applies.
func (r TriggerRequest) StartBy(at time.Time) *time.Time {
	if limit := r.Limit(); limit != nil {
		return new(at.Add(*limit))
	}
	return nil
}

// KeyUsed returns an ErrKeyUsed which names the key.
func (r TriggerRequest) KeyUsed() error {
	return fmt.Errorf("key %q of job %s was used with other params or for another time: %w", r.Key,
		r.Job, ErrKeyUsed)
}

// AtOnce reports whether Wait is 0.
func (r TriggerRequest) AtOnce() bool { return r.Wait != nil && *r.Wait == 0 }

// lastYear is the last year that JSON can write.
const lastYear = 9999

// checkBegin returns a *BadInputError for an invalid At or Delay.
func (r TriggerRequest) checkBegin() error {
	switch {
	case r.Delay < 0:
		return &BadInputError{"delay", fmt.Sprintf("found %s, expected 0 or more", r.Delay)}
	case r.Delay > 0 && !r.At.IsZero():
		return &BadInputError{"delay", "found a time and a delay, expected one of them"}
	case !r.At.IsZero() && (r.At.Year() < 1970 || r.At.UTC().Year() > lastYear):
		return &BadInputError{"at", fmt.Sprintf("found the year %d, expected 1970 to %d",
			r.At.Year(), lastYear)}
	case !r.At.IsZero() && r.Wait != nil && r.At.Add(*r.Wait).UTC().Year() > lastYear:
		return &BadInputError{"wait", fmt.Sprintf("found an end after the year %d", lastYear)}
	case r.AtOnce() && r.Later():
		return &BadInputError{"wait",
			"found 0, expected none or a duration: what will block a later run is not known"}
	}
	return nil
}

// checkWait returns a *BadInputError for an invalid Wait.
func (r TriggerRequest) checkWait() error {
	if r.Wait == nil || *r.Wait == 0 || *r.Wait >= minTriggerWait {
		return nil
	}
	return &BadInputError{"wait",
		fmt.Sprintf("found %s, expected 0, or %s and more", *r.Wait, minTriggerWait)}
}
