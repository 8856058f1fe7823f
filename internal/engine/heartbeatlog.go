package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// heartbeatsKept is how long a heartbeatLog remembers a heartbeat.
	heartbeatsKept = 11 * time.Minute
	// heartbeatsEvery is the shortest time between two heartbeats of a session in the log. It
	// bounds the memory if heartbeats are frequent.
	heartbeatsEvery = 4 * time.Second
)

// heartbeatLog remembers the heartbeats of all replicas as this replica saw them, for the page. It
// needs no query of its own: each heartbeat reads the sessions. It may be used concurrently.
type heartbeatLog struct {
	mu   sync.Mutex
	seen map[uuid.UUID][]storage.HeartbeatView // by session, oldest first
	own  storage.ReplicaView                   // this replica's session in the last list
	last time.Time                             // of the last list whose heartbeats were added
}

// note adds the heartbeats of the listed sessions. This replica's session sent a heartbeat just
// before the list was read. For this session, note adds the previous heartbeat: its age shows
// whether the new one was late.
func (l *heartbeatLog) note(list sessionList) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, before := list.at, l.own
	for _, v := range list.open {
		if v.Session == list.session {
			l.own = v
		}
	}
	if passed := at.Sub(l.last); passed >= 0 && passed < heartbeatsEvery {
		return
	}
	l.last = at
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
	for _, v := range list.open {
		if v.Session == before.Session {
			v = before
		}
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
