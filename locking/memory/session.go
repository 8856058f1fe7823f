package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// keepEnded is how long the end of a session is remembered, so that it cannot be
// opened again.
const keepEnded = time.Hour

// session is the liveness record of a replica. Its state only grows.
type session struct {
	locking.Session
	expires time.Time
	state   state
	parties map[uuid.UUID]*party
}

type state int

const (
	live    state = iota
	expired       // its waiters are removed, its claims wait for a sweep
	ended
)

// OpenSession implements locking.Grants.
func (g *Grants) OpenSession(ctx context.Context, s locking.Session) error {
	now, end, err := g.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if s.TTL <= 0 {
		return fmt.Errorf("TTL of session %s: found %s, expected more than 0", s.ID, s.TTL)
	}
	if g.sessions[s.ID] != nil {
		_, err := g.liveSession(s.ID) // the reply was lost
		return err
	}
	if s.ReplaceEarlier {
		for _, other := range g.sessions {
			if other.Replica == s.Replica && other.state == live {
				g.lapse(other)
			}
		}
	}
	g.sessions[s.ID] = &session{Session: s, expires: now.Add(s.TTL),
		parties: map[uuid.UUID]*party{}}
	g.watch(now.Add(s.TTL))
	return nil
}

// Heartbeat implements locking.Grants.
func (g *Grants) Heartbeat(ctx context.Context, id uuid.UUID) (locking.HeartbeatReply, error) {
	now, end, err := g.begin(ctx)
	if err != nil {
		return locking.HeartbeatReply{}, err
	}
	defer end()
	s, err := g.liveSession(id)
	if err != nil {
		return locking.HeartbeatReply{}, err
	}
	s.expires = now.Add(s.TTL)
	reply := locking.HeartbeatReply{Now: now,
		Claims: make(map[locking.Token]uuid.UUID, len(s.parties))}
	for _, p := range s.parties {
		if p.token == 0 {
			reply.Waiting = append(reply.Waiting, p.id)
		} else {
			reply.Claims[p.token] = p.id
		}
	}
	return reply, nil
}

// LiveSessions implements locking.Sessions.
func (g *Grants) LiveSessions(ctx context.Context, sessions []uuid.UUID) ([]uuid.UUID, error) {
	_, end, err := g.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	return slices.DeleteFunc(slices.Clone(sessions), func(id uuid.UUID) bool {
		_, err := g.liveSession(id)
		return err != nil
	}), nil
}

// EndSession implements locking.Grants.
func (g *Grants) EndSession(ctx context.Context, id uuid.UUID) error {
	_, end, err := g.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if s := g.sessions[id]; s != nil {
		s.state = ended
		for _, p := range s.parties {
			g.removeParty(p)
		}
	}
	return nil
}

func (g *Grants) liveSession(id uuid.UUID) (*session, error) {
	s := g.sessions[id]
	if s == nil || s.state != live {
		return nil, fmt.Errorf("session %s: %w", id, locking.ErrSessionLost)
	}
	return s, nil
}

// watch schedules a check of the sessions for that time, unless an earlier one is
// scheduled.
func (g *Grants) watch(at time.Time) {
	if g.expiry.IsZero() || at.Before(g.expiry) {
		g.expiry = at
	}
}

// expire checks all sessions if one of them may have expired.
func (g *Grants) expire(now time.Time) {
	if g.expiry.IsZero() || now.Before(g.expiry) {
		return
	}
	g.expiry = time.Time{}
	for id, s := range g.sessions {
		switch {
		case s.state == live && !now.Before(s.expires):
			g.lapse(s)
		case s.state == live:
			g.watch(s.expires)
		case s.state == ended && now.Sub(s.expires) > keepEnded:
			delete(g.sessions, id)
		}
	}
}

// lapse expires a session and removes its waiters.
func (g *Grants) lapse(s *session) {
	s.state = expired
	for _, p := range s.parties {
		if p.token == 0 {
			g.removeParty(p)
		}
	}
}
