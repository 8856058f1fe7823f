package jobs

import (
	"errors"
	"fmt"
)

// Causes of the end of a run's context. context.Cause returns one of them, or an error that wraps
// one.
var (
	// ErrClaimLost says that the run's claim was revoked.
	ErrClaimLost = errors.New("claim is lost")
	// ErrShutdown says that the replica is stopping and the grace period has ended.
	ErrShutdown = errors.New("replica is shutting down")
	// ErrCancelled says that an operator ended the run.
	ErrCancelled = errors.New("cancelled by an operator")
	// ErrTimeout says that the attempt took longer than the job's Timeout.
	ErrTimeout = errors.New("timeout")
)

// PanicError is the error of a run whose handler panicked.
type PanicError struct {
	Value any
	Stack []byte
}

// Error includes the value of the panic.
func (e *PanicError) Error() string { return fmt.Sprintf("handler panicked: %v", e.Value) }

// Unwrap returns the value, if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
