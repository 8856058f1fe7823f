// Package attempt has the part of a run's attempt that its handler does not see:
// the engine makes it, and the stores read and complete it.
package attempt

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/output"
)

// Store is the store that holds the run's claim. A fenced transaction needs its
// concrete type.
type Store interface {
	// Saved returns the state that the job's runs saved last, or nil.
	Saved(ctx context.Context, job string) (json.RawMessage, error)
	// PreviousSuccess returns the scheduled time of the job's last run before that time that
	// succeeded, or zero.
	PreviousSuccess(ctx context.Context, job string, before time.Time) (time.Time, error)
}

// Attempt belongs to one attempt. Its fields do not change; its methods may be
// called concurrently.
type Attempt struct {
	Store  Store          // nil in tests of handlers
	Log    zerolog.Logger // what handlers log
	Output *output.Tail   // what handlers write

	mu            sync.Mutex
	completed     string
	saved, result json.RawMessage
}

// Complete says in which state the run's own transaction has recorded its end, so
// that the engine does not record it again.
func (a *Attempt) Complete(state string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.completed = state
}

// Completed returns the state that was given to Complete, "" if there is none.
func (a *Attempt) Completed() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.completed
}

// Save sets the state for the job's next run, as JSON.
func (a *Attempt) Save(state json.RawMessage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.saved = state
}

// Saved returns the state that was last given to Save, or nil.
func (a *Attempt) Saved() json.RawMessage {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.saved
}

// SetResult sets the run's result, as JSON.
func (a *Attempt) SetResult(result json.RawMessage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.result = result
}

// Result returns the result that was last given to SetResult, or nil.
func (a *Attempt) Result() json.RawMessage {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.result
}
