package sqlite

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// liveSession is a session of this process. Its times have the monotonic clock.
type liveSession struct {
	storage.Session
	started, heartbeat, expires time.Time
	replicaStatus               storage.ReplicaStatus
	ended                       bool
}

func (l *liveSession) live(now time.Time) bool { return !l.ended && now.Before(l.expires) }

// liveSessions decides which sessions of this process are live. A session that was found dead once
// remains dead: only a live one is renewed. It may be used concurrently.
type liveSessions struct {
	mu  sync.Mutex
	all map[uuid.UUID]*liveSession
}

func newLiveSessions() liveSessions { return liveSessions{all: map[uuid.UUID]*liveSession{}} }

// open adds the session unless it exists, and reports whether it did.
func (l *liveSessions) open(s storage.Session) (liveSession, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.all[s.ID]; known != nil {
		return *known, false
	}
	now := time.Now()
	added := &liveSession{Session: s, started: now, heartbeat: now, expires: now.Add(s.TTL)}
	l.all[s.ID] = added
	return *added, true
}

// succeed expires all other sessions of the session's name.
func (l *liveSessions) succeed(s storage.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for _, former := range l.all {
		if former.ID != s.ID && former.Replica == s.Replica && former.live(now) {
			former.expires = now
		}
	}
}

// renew extends the session if it is live.
func (l *liveSessions) renew(id uuid.UUID, v storage.ReplicaStatus) (liveSession, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	known := l.all[id]
	if known == nil || !known.live(now) {
		return liveSession{}, false
	}
	known.heartbeat, known.expires, known.replicaStatus = now, now.Add(known.TTL), v
	return *known, true
}

// get returns the session and whether it is live.
func (l *liveSessions) get(id uuid.UUID) (liveSession, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.all[id]
	if known == nil {
		return liveSession{}, false
	}
	return *known, known.live(time.Now())
}

// spans returns the times from start to expiry of the live sessions.
func (l *liveSessions) spans() []storage.Span {
	l.mu.Lock()
	defer l.mu.Unlock()
	var up []storage.Span
	for _, known := range l.all {
		if known.live(time.Now()) {
			up = append(up, storage.Span{From: fromMicros(micros(known.started)),
				Until: fromMicros(micros(known.expires))})
		}
	}
	return up
}

// nextExpiry returns the time until the next live session expires, or 0 if none is live.
func (l *liveSessions) nextExpiry() (next time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for _, known := range l.all {
		if left := known.expires.Sub(now); known.live(now) && (next == 0 || left < next) {
			next = left
		}
	}
	return next
}

// end makes the session dead.
func (l *liveSessions) end(id uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.all[id]; known != nil {
		known.ended = true
		if now := time.Now(); known.expires.After(now) {
			known.expires = now
		}
	}
}

func (l *liveSessions) forget(id uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, id)
}

// liveIDs returns the ids of all live sessions.
func (l *liveSessions) liveIDs() []uuid.UUID {
	return l.idsOf(func(*liveSession) bool { return true })
}

// keeperIDs returns the ids of the live sessions that keep their waiting runs.
func (l *liveSessions) keeperIDs() []uuid.UUID {
	return l.idsOf(func(s *liveSession) bool { return !s.replicaStatus.Stopping })
}

func (l *liveSessions) idsOf(wanted func(*liveSession) bool) []uuid.UUID {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	ids := make([]uuid.UUID, 0, len(l.all))
	for id, known := range l.all {
		if known.live(now) && wanted(known) {
			ids = append(ids, id)
		}
	}
	return ids
}
