package locking

import (
	"errors"
	"fmt"
)

var (
	// ErrHeld matches every *HeldError.
	ErrHeld = errors.New("resource is held")
	// ErrReleased is the cause of a lock's context after Release.
	ErrReleased = errors.New("lock was released")
	// ErrBadRequest matches every *RequestError.
	ErrBadRequest = errors.New("bad lock request")
	// ErrUnsupported matches every *UnsupportedError.
	ErrUnsupported = errors.New("lock mode is not supported here")
	// ErrForeignValue says that Memo did not write the value under its key. Memo never removes it.
	ErrForeignValue = errors.New("stored value is not a value of this key")
)

// HeldError says that another lock holds a resource or, with grants, has waited for it longer. It
// matches ErrHeld.
type HeldError struct {
	Resource Resource // of the other lock
	Holder   Holder   // not Known if it could not be read
	Waiting  bool     // an older waiter, not a holder; only with Options.Grants
}

// Error returns a text such as "orders is held by job sales (run 0190…) on replica-1".
func (e *HeldError) Error() string {
	if e.Waiting {
		return fmt.Sprintf("%s is waited for by %s, which goes first", e.Resource, e.Holder)
	}
	return fmt.Sprintf("%s is held by %s", e.Resource, e.Holder)
}

func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// RequestError refuses requests that Normalize refuses, except those with ErrBadName. It matches
// ErrBadRequest.
type RequestError struct {
	Resource Resource // zero if there are too many requests
	Problem  string
}

func (e *RequestError) Error() string {
	if e.Resource.IsZero() {
		return e.Problem
	}
	return fmt.Sprintf("%s: %s", e.Resource, e.Problem)
}

func (e *RequestError) Is(target error) bool { return target == ErrBadRequest }

// UnsupportedError refuses a shared or slotted request to a Locker without Grants or Restore. It
// matches ErrUnsupported.
type UnsupportedError struct {
	Request Request
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("%s: a %s lock needs a store of grants, and this locker has none",
		e.Request.Resource, e.Request.Mode)
}

func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }

// LossReason says how a lock was lost.
type LossReason string

const (
	// The advisory lock is gone: the backend lost it, or it expired.
	LossVanished    LossReason = "vanished"
	LossTaken       LossReason = "taken"       // another lock has the key
	LossUnconfirmed LossReason = "unconfirmed" // no renewal succeeded while the lock was trusted
	// The session ended. Only with Options.Grants, like LossClaim.
	LossSession LossReason = "session"
	LossClaim   LossReason = "claim" // the claim is gone: an operator has released it
)

// LostError is the cause of a lost lock's context. Release returns it for a lock that was lost.
type LostError struct {
	Resource Resource // the first lost one; zero if the whole lock was lost at once
	Reason   LossReason
	Holder   Holder // the new holder if Reason is LossTaken
	// Err is the error of the renewal if Reason is LossUnconfirmed. It wraps ErrSessionLost for
	// LossSession, and ErrSuperseded for LossClaim.
	Err error
}

func (e *LostError) Error() string {
	switch e.Reason {
	case LossTaken:
		return fmt.Sprintf("lock on %s was lost: it is held by %s", e.Resource, e.Holder)
	case LossVanished:
		return fmt.Sprintf("lock on %s was lost: its advisory lock is gone", e.Resource)
	case LossSession, LossClaim:
		return fmt.Sprintf("lock was lost: %v", e.Err)
	}
	if e.Err == nil {
		return "lock was lost: it was not renewed in time"
	}
	return fmt.Sprintf("lock was lost: it was not renewed in time: %v", e.Err)
}

func (e *LostError) Unwrap() error { return e.Err }

// UnsharedError says that a caller of this process computed a Memo's value and could not store it.
type UnsharedError struct {
	Key   string
	Value []byte // what compute returned
	Err   error  // why the value could not be stored
}

func (e *UnsharedError) Error() string {
	return fmt.Sprintf("memo %s: its value was computed and could not be stored: %v", e.Key, e.Err)
}

func (e *UnsharedError) Unwrap() error { return e.Err }
