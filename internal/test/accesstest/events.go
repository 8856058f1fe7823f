package accesstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Events is an audit log in memory.
type Events struct {
	mu    sync.Mutex
	lines []string
	down  bool
	by    []storage.Action
}

// WriteAudit records the entry.
func (e *Events) WriteAudit(_ context.Context, by storage.Action, event, target string,
	detail any) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.down {
		return errors.New("store is down")
	}
	encoded, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	e.by = append(e.by, by)
	e.lines = append(e.lines, fmt.Sprintf("%s %s by %s (%s, %s) %s", event, target, by.Actor,
		by.Via, by.Proof, encoded))
	return by.Check()
}

// SetDown makes all calls fail from now on, or succeed again.
func (e *Events) SetDown(down bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.down = down
}

// Take returns the entries since the last call, in their order.
func (e *Events) Take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	lines := e.lines
	e.lines = nil
	return lines
}

// Senders returns the action of each entry.
func (e *Events) Senders() []storage.Action {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.by)
}
