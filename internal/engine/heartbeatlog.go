package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// heartbeatsKept is how long a heartbeatLog remembers a heartbeat.
const heartbeatsKept = 11 * time.Minute

// heartbeatLog remembers the heartbeats of all replicas as this replica saw them, for the page. It
// needs no query of its own: each heartbeat reads the sessions. It may be used concurrently.
type heartbeatLog struct {
	mu   sync.Mutex
	seen map[uuid.UUID][]storage.HeartbeatView // by session, oldest first
}

// note adds the heartbeats of the sessions that were read at a time.
func (l *heartbeatLog) note(at time.Time, sessions []storage.ReplicaView) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen = make(map[uuid.UUID][]storage.HeartbeatView)
	}
	for id, views := range l.seen {
		first := slices.IndexFunc(views, func(v storage.HeartbeatView) bool {
			return at.Sub(v.At) < heartbeatsKept
		})
		if first < 0 {
			delete(l.seen, id)
			continue
		}
		l.seen[id] = slices.Delete(views, 0, first)
	}
	for _, v := range sessions {
		if v.EndedAt == nil {
			l.seen[v.Session] = append(l.seen[v.Session], storage.HeartbeatView{At: at,
				LastHeartbeat: v.LastHeartbeat, ExpiresAt: v.ExpiresAt})
		}
	}
}

// of returns the heartbeats of a session, oldest first.
func (l *heartbeatLog) of(session uuid.UUID) []storage.HeartbeatView {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.seen[session])
}
