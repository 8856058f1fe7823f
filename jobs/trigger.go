package jobs

import (
	"errors"
	"fmt"
	"time"
)

// TriggerGrace is how long a run that was triggered with a Wait of 0 may take to begin
// once the trigger was accepted: a replica has to take it up, and needs a free worker.
const TriggerGrace = 10 * time.Second

// minTriggerWait is the shortest Wait other than 0: a replica may take as long to find
// the run.
const minTriggerWait = time.Second

// ErrBusy says that a trigger was refused because something was in the way of the run.
// A *BusyError says what.
var ErrBusy = errors.New("busy")

// BusyError says why a trigger with a Wait of 0 was refused.
type BusyError struct {
	Job      string
	Obstacle Obstacle
}

// Error names the blocker.
func (e *BusyError) Error() string {
	return fmt.Sprintf("job %s can not run now (%s): %s", e.Job, e.Obstacle.Reason,
		e.Obstacle.Words("is held by"))
}

// Unwrap returns ErrBusy.
func (e *BusyError) Unwrap() error { return ErrBusy }

// Triggered is the answer to a trigger.
type Triggered struct {
	Record
	// Created is false where the key had this run already.
	Created bool `json:"created"`
	// WaitsFor is what was in the way of the waiting run when the trigger was answered;
	// nil where nothing was.
	WaitsFor *Obstacle `json:"waits_for,omitempty"`
}

// Obstacle is a blocker, with the reason for which it keeps a run waiting.
type Obstacle struct {
	Blocker
	Reason Reason `json:"reason"`
}

// Limit returns how long after the trigger the run must have begun; nil where only its
// job's deadline says.
func (r TriggerRequest) Limit() *time.Duration {
	if r.AtOnce() {
		return new(TriggerGrace)
	}
	return r.Wait
}

// StartBy returns when the run of a trigger at that time must have begun; nil where only
// its job's deadline says.
func (r TriggerRequest) StartBy(at time.Time) *time.Time {
	if limit := r.Limit(); limit != nil {
		return new(at.Add(*limit))
	}
	return nil
}

// AtOnce reports whether the trigger is to be refused where something is in the way.
func (r TriggerRequest) AtOnce() bool { return r.Wait != nil && *r.Wait == 0 }

// checkWait returns a *BadInputError for a Wait that can't be.
func (r TriggerRequest) checkWait() error {
	if r.Wait == nil || *r.Wait == 0 || *r.Wait >= minTriggerWait {
		return nil
	}
	return &BadInputError{"wait",
		fmt.Sprintf("found %s, expected 0, or %s and more", *r.Wait, minTriggerWait)}
}
