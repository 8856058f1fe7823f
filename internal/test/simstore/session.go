package simstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// session is a session of a replica with its jobs and their versions.
type session struct {
	storage.Session
	started, heartbeat, expires time.Time
	ended                       *time.Time
	stopped                     bool // its replica ended it and it had no claims
	draining                    bool
	drains                      []time.Time // begins and ends, in turn
	removed                     bool        // an operator removed it from the list of replicas
	replicaStatus               storage.ReplicaStatus
	carried                     map[string]int64
	// when it registered each job; also after its end
	took   map[string]time.Time
	claims map[jobs.Token]uuid.UUID
}

func (l *session) live(now time.Time) bool { return l.ended == nil && now.Before(l.expires) }

// liveSession returns the session if it is live.
func (s *Store) liveSession(id uuid.UUID) (*session, bool) {
	l := s.sessions[id]
	return l, l != nil && l.live(s.now())
}

// keeps reports whether the session keeps its waiting runs: it is live and not stopping.
func (s *Store) keeps(session uuid.UUID) bool {
	l, live := s.liveSession(session)
	return live && !l.replicaStatus.Stopping
}

// adopts reports whether the session may adopt runs.
func (l *session) adopts() bool { return !l.draining && !l.replicaStatus.Stopping }

// Open implements storage.Sessions.
func (s *Store) Open(ctx context.Context, o storage.Session) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if s.sessions[o.ID] != nil {
		return nil
	}
	now := s.writeTime()
	if o.ReplaceEarlier {
		for _, former := range s.sessions {
			if former.Replica == o.Replica && former.live(now) {
				former.expires = now
			}
		}
	}
	l := &session{
		Session: o, started: now, heartbeat: now, expires: now.Add(o.TTL),
		carried: map[string]int64{},
		took:    map[string]time.Time{}, claims: map[jobs.Token]uuid.UUID{},
	}
	s.sessions[o.ID], s.allSessions = l, append(s.allSessions, l)
	return nil
}

// Heartbeat implements storage.Sessions.
func (s *Store) Heartbeat(ctx context.Context, id uuid.UUID,
	v storage.ReplicaStatus) (storage.HeartbeatReply, error) {
	if err := s.enter(ctx); err != nil {
		return storage.HeartbeatReply{}, err
	}
	defer s.mu.Unlock()
	l, live := s.liveSession(id)
	if !live {
		return storage.HeartbeatReply{}, fmt.Errorf("heartbeat: %w", storage.ErrSessionLost)
	}
	l.heartbeat, l.replicaStatus = s.writeTime(), v
	l.expires = l.heartbeat.Add(l.TTL)
	claims := make(map[jobs.Token]uuid.UUID, len(l.claims))
	for token, run := range l.claims {
		claims[token] = run
	}
	// This is not the heartbeat's own time, which may be ahead of the clock when several
	// transactions write at once.
	return storage.HeartbeatReply{Now: s.now(), Claims: claims, Definitions: s.definitions,
		Generation: s.control.generation, Draining: l.draining, Open: s.open(),
		Adoptable: s.hasAdoptable(id)}, nil
}

// LiveSessions implements storage.Sessions.
func (s *Store) LiveSessions(ctx context.Context, sessions []uuid.UUID) ([]uuid.UUID, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(sessions), func(id uuid.UUID) bool {
		_, live := s.liveSession(id)
		return !live
	}), nil
}

// End implements storage.Sessions.
func (s *Store) End(ctx context.Context, id uuid.UUID) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if l := s.sessions[id]; l != nil && l.ended == nil {
		now := s.now()
		if l.expires.After(now) {
			l.expires = now
		}
		if len(l.claims) == 0 { // otherwise a sweep first ends the claims
			l.ended, l.stopped = &now, true
		}
	}
	s.settle()
	return nil
}

// Expire makes a session's TTL run out at once.
func (s *Store) Expire(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[id].expires = s.now()
}

// SessionSpan is the interval of one session according to its heartbeats.
type SessionSpan struct {
	Replica             string
	From, LastHeartbeat time.Time // times of the first and the last heartbeat
	TTL                 time.Duration
	Ended               *time.Time
	Took                map[string]time.Time // when it registered each job
}

// SessionSpans returns all sessions ever opened, the oldest first.
func (s *Store) SessionSpans() []SessionSpan {
	s.mu.Lock()
	defer s.mu.Unlock()
	spans := make([]SessionSpan, len(s.allSessions))
	for i, l := range s.allSessions {
		spans[i] = SessionSpan{Replica: l.Replica, From: l.started, LastHeartbeat: l.heartbeat,
			TTL: l.TTL, Ended: l.ended, Took: maps.Clone(l.took)}
	}
	return spans
}

// SessionEnd returns when the session ended, or when it will expire.
func (s *Store) SessionEnd(id uuid.UUID) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.allSessions {
		if l.ID == id {
			return l.expires // the replica ended the session before it expired
		}
	}
	return time.Time{}
}
