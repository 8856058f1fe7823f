package rules

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

// turnLasts is how long a session keeps its turn to prune after its last batch.
const turnLasts = 30 * time.Second

// Turn grants one session at a time the right to prune. It may be used concurrently.
type Turn struct {
	mu    sync.Mutex
	whose uuid.UUID
	until time.Time
}

// Take reports whether the session has the turn.
func (t *Turn) Take(session uuid.UUID, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if session != t.whose && now.Before(t.until) {
		return false
	}
	t.whose, t.until = session, now.Add(turnLasts)
	return true
}
