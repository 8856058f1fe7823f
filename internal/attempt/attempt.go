// Package attempt has the part of a run's attempt that its handler does not see:
// the engine makes it, and the stores read and complete it. Its types take the types Run and Tx of
// package jobs as parameters, because package jobs imports this package.
package attempt

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/output"
)

// Store is the store that holds the run's claim: a storage.RunStore, where the methods are
// explained. A fenced transaction with the driver's own type needs its concrete type.
type Store[Run, Tx any] interface {
	Saved(ctx context.Context, job string) (json.RawMessage, error)
	PreviousSuccess(ctx context.Context, job string, before time.Time) (time.Time, error)
	InTx(ctx context.Context, run Run, fn func(tx Tx) error) error
	CompleteInTx(ctx context.Context, run Run, fn func(tx Tx) error) error
	RunStatements(ctx context.Context, run Run, script Script) (rows []int64, err error)
}

// Script is what a run executes in one fenced transaction.
type Script struct {
	Statements []Statement
	// Share permits the store to execute the statements in one transaction with those of other
	// runs.
	Share bool
}

// Statement is one SQL statement and its arguments.
type Statement struct {
	SQL  string
	Args []any // by position: $1, $2
	// Named are the arguments that the statement uses as @name. It may have more of them.
	Named map[string]NamedArg
}

// NamedArg is an argument with a name.
type NamedArg struct {
	// nil, a string, int64, float64, bool, uuid.UUID, or a time.Time, which SQLite gets as text in
	// UTC, in the form of its function datetime
	Value any
	// Type is the PostgreSQL type of the argument; "" is the type that the statement expects in its
	// place.
	Type string
}

// Lock is a name that a run locks.
type Lock struct {
	Key    string // of the resource
	Shared bool
}

// Attempt belongs to one attempt. Its fields do not change; its methods may be
// called concurrently.
type Attempt[Run, Tx any] struct {
	Store  Store[Run, Tx]        // nil in tests of handlers
	NewLog func() zerolog.Logger // returns the logger of Log; most handlers do not log
	Output *output.Tail          // what handlers write

	Cluster uuid.UUID // id of the cluster of the store; zero in tests of handlers
	Locks   []Lock    // what the run locks, for fences outside of the store

	logOnce sync.Once
	log     zerolog.Logger

	mu            sync.Mutex
	completed     string
	saved, result json.RawMessage
	steps         []string
	begun         map[string]string // steps by the ids of their transactions
}

// Log returns the logger of the handler.
func (a *Attempt[Run, Tx]) Log() *zerolog.Logger {
	a.logOnce.Do(func() { a.log = a.NewLog() })
	return &a.log
}

// Complete says in which state the run's own transaction has recorded its end, so
// that the engine does not record it again.
func (a *Attempt[Run, Tx]) Complete(state string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.completed = state
}

// Completed returns the state that was given to Complete, "" if there is none.
func (a *Attempt[Run, Tx]) Completed() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.completed
}

// Save sets the state for the job's next run, as JSON.
func (a *Attempt[Run, Tx]) Save(state json.RawMessage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.saved = state
}

// Saved returns the state that was last given to Save, or nil.
func (a *Attempt[Run, Tx]) Saved() json.RawMessage {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.saved
}

// SetResult sets the run's result, as JSON.
func (a *Attempt[Run, Tx]) SetResult(result json.RawMessage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.result = result
}

// Result returns the result that was last given to SetResult, or nil.
func (a *Attempt[Run, Tx]) Result() json.RawMessage {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.result
}

// CommitStep says that the transaction of a step was committed in another database.
func (a *Attempt[Run, Tx]) CommitStep(step string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.steps = append(a.steps, step)
}

// StepCommitted reports whether the step was given to CommitStep.
func (a *Attempt[Run, Tx]) StepCommitted(step string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Contains(a.steps, step)
}

// BeginStep says that the handler commits a transaction of the step itself. The id is that of the
// transaction in the fence.
func (a *Attempt[Run, Tx]) BeginStep(step, id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.begun == nil {
		a.begun = map[string]string{}
	}
	a.begun[id] = step
}

// Began reports whether the id was given to BeginStep.
func (a *Attempt[Run, Tx]) Began(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, began := a.begun[id]
	return began
}

// StepBegun reports whether the step was given to BeginStep.
func (a *Attempt[Run, Tx]) StepBegun(step string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Contains(slices.Collect(maps.Values(a.begun)), step)
}
