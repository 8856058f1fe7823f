package storage

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// TriggerRequest requests a run by hand.
type TriggerRequest struct {
	Job string
	// Key is the key of the run and makes the request idempotent. Each actor has keys of its own
	// for each job. The same key with the same params and the same At or Delay returns the same
	// run. Otherwise it returns ErrKeyUsed. A run that ended as Skipped leaves its key free. ""
	// generates a key.
	Key string
	// Params override the job's own params, key by key; nil: the job's own. The caller has checked
	// them against the handler's type.
	Params json.RawMessage
	// EvenPaused starts the run even if its job is paused. Without it the result is a *PausedError.
	EvenPaused bool
	// Wait is how long the run may wait before it begins: for a blocker, a replica or a worker. A
	// run that has not begun by then ends as Skipped.
	//
	// With 0 the trigger returns a *BusyError if another run or lock blocks it. An accepted run
	// has TriggerGrace to begin. nil: the run waits until its job's deadline. A key that has a run
	// already returns that run, whatever the Wait.
	Wait *time.Duration
	// At is the time at which the run begins to wait for its start, by the store's clock; zero: at
	// once. It is the scheduled time of the run. Deadline and Wait count from it. If the time has
	// passed, the run begins to wait at once. Then Wait counts from the trigger, and only the
	// Deadline counts from At. A pause after the trigger does not hold the run back. A request with
	// At or Delay cannot have a Wait of 0.
	At time.Time
	// Delay is the time from the trigger to At. It is set instead of At. 0: at once.
	Delay time.Duration
}

// TriggerGrace is how long an accepted trigger with a Wait of 0 may take to begin its run: a
// replica must adopt it, with a free worker.
const TriggerGrace = 10 * time.Second

// minTriggerWait is the shortest Wait other than 0: a replica may need that long to adopt the run.
const minTriggerWait = time.Second

// ErrBusy says that a trigger was refused because something blocks the run. A *BusyError has the
// blocker.
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
	// WaitsFor is the blocker of the waiting run at the time of the trigger; nil if there was none.
	WaitsFor *RunBlocker `json:"waits_for,omitempty"`
}

// RunBlocker is the blocker of a waiting run, with the reason of the wait.
type RunBlocker struct {
	jobs.Blocker
	Reason jobs.Reason `json:"reason"`
}

// Limit returns the longest time from the beginning of the wait (see Begin) to the start of the
// run; nil if only the deadline of its job applies.
func (r TriggerRequest) Limit() *time.Duration {
	if r.AtOnce() {
		return new(TriggerGrace)
	}
	return r.Wait
}

// Begin returns the scheduled time of the run, and the time at which the run begins to wait, if the
// trigger happens at now.
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

// Later reports whether the trigger asks for a start at a later time.
func (r TriggerRequest) Later() bool { return !r.At.IsZero() || r.Delay != 0 }

// SameBegin reports whether r asks for the same time as an earlier trigger. The argument is the run
// that the earlier trigger added itself, and not a recovery of that run.
func (r TriggerRequest) SameBegin(added Record) bool {
	scheduledAt, _ := r.Begin(added.CreatedAt)
	return scheduledAt.Equal(added.ScheduledAt)
}

// StartBy returns when a run that waits since that time must have begun; nil if only its job's
// deadline applies.
func (r TriggerRequest) StartBy(at time.Time) *time.Time {
	if limit := r.Limit(); limit != nil {
		return new(at.Add(*limit))
	}
	return nil
}

// KeyUsed returns an ErrKeyUsed: the actor has used the key for a trigger with other params, or for
// another time.
func (r TriggerRequest) KeyUsed() error {
	return fmt.Errorf("key %q of job %s was used with other params or for another time: %w", r.Key,
		r.Job, ErrKeyUsed)
}

// AtOnce reports whether the trigger must be refused if something blocks the run.
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
