package locking

import (
	"errors"
	"fmt"
)

var (
	// ErrHeld is what every *HeldError is.
	ErrHeld = errors.New("resource is held")
	// ErrReleased is the cause of a lock's context after Release.
	ErrReleased = errors.New("lock was released")
	// ErrBadRequest is what every *RequestError is.
	ErrBadRequest = errors.New("bad lock request")
	// ErrUnsupported is what every *UnsupportedError is.
	ErrUnsupported = errors.New("lock mode is not supported here")
	// ErrForeignValue says that what is stored under a Memo's key is not its
	// value: garbage, or another program's. It is never removed, and runs out.
	ErrForeignValue = errors.New("what is stored is not the value of this key")
)

// HeldError says that a resource is held by another lock, or that another lock
// has waited for it longer. It is a normal outcome. It is an ErrHeld.
type HeldError struct {
	Resource Resource // the other lock's
	Holder   Holder   // not Known where it could not be read
	Waiting  bool     // it waits too, and goes first; only with Options.Grants
}

// Error returns such as "orders is held by job sales (run 0190…) on replica-1".
func (e *HeldError) Error() string {
	if e.Waiting {
		return fmt.Sprintf("%s is waited for by %s, which goes first", e.Resource, e.Holder)
	}
	return fmt.Sprintf("%s is held by %s", e.Resource, e.Holder)
}

// Is reports whether target is ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// RequestError refuses requests that no lock can have: in two modes, with slots
// out of range, in an unknown mode, or too many. It is an ErrBadRequest.
type RequestError struct {
	Resource Resource // zero where there are too many
	Problem  string
}

// Error says what is wrong.
func (e *RequestError) Error() string {
	if e.Resource.IsZero() {
		return e.Problem
	}
	return fmt.Sprintf("%s: %s", e.Resource, e.Problem)
}

// Is reports whether target is ErrBadRequest.
func (e *RequestError) Is(target error) bool { return target == ErrBadRequest }

// UnsupportedError refuses a request that a Locker without a second stage
// cannot enforce. It is an ErrUnsupported.
type UnsupportedError struct {
	Request Request
}

// Error names the resource and the mode.
func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("%s: a %s lock needs a second stage, and this locker has none",
		e.Request.Resource, e.Request.Mode)
}

// Is reports whether target is ErrUnsupported.
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }

// LossReason says how a lock was lost.
type LossReason string

// The ways to lose a lock.
const (
	// the entry is gone: the store forgot it, or it ran out
	LossVanished    LossReason = "vanished"
	LossTaken       LossReason = "taken"       // the entry is another's
	LossUnconfirmed LossReason = "unconfirmed" // it could not be renewed while it was trusted
	// its session ended; only with Options.Grants, as the next
	LossSession LossReason = "session"
	LossClaim   LossReason = "claim" // its claim is gone: it was taken back by force
)

// LostError is the cause of a lock's context when the lock was lost, and what
// Release returns for a lock that was no longer held.
type LostError struct {
	Resource Resource // the first that was lost; zero where the whole lock was lost at once
	Reason   LossReason
	Holder   Holder // who has it now, where Reason is LossTaken
	// Err says why it could not be renewed, where Reason is LossUnconfirmed,
	// wraps ErrSessionLost where it is LossSession, and ErrSuperseded where it
	// is LossClaim.
	Err error
}

// Error says what was lost and how.
func (e *LostError) Error() string {
	switch e.Reason {
	case LossTaken:
		return fmt.Sprintf("lock on %s was lost: it is held by %s", e.Resource, e.Holder)
	case LossVanished:
		return fmt.Sprintf("lock on %s was lost: its entry is gone", e.Resource)
	case LossSession, LossClaim:
		return fmt.Sprintf("lock was lost: %v", e.Err)
	}
	if e.Err == nil {
		return "lock was lost: it was not renewed in time"
	}
	return fmt.Sprintf("lock was lost: it was not renewed in time: %v", e.Err)
}

// Unwrap returns Err.
func (e *LostError) Unwrap() error { return e.Err }

// UnsharedError says that a Memo's value was computed by this caller and could
// not be stored: nobody else will get it.
type UnsharedError struct {
	Key   string
	Value []byte // what compute returned
	Err   error  // why it could not be stored
}

// Error says why the value could not be stored.
func (e *UnsharedError) Error() string {
	return fmt.Sprintf("memo %s: its value was computed and could not be stored: %v", e.Key, e.Err)
}

// Unwrap returns why the value could not be stored.
func (e *UnsharedError) Unwrap() error { return e.Err }
