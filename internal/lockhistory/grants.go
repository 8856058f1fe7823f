package lockhistory

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// grants records the lives of sessions, and which session a claim is of.
type grants struct {
	locking.Grants
	recorder *Recorder

	mu       sync.Mutex
	sessions map[uuid.UUID]locking.Session
}

// Grants returns g, recorded. What is known of a session says until when at
// least the locks stood that were never released.
func (r *Recorder) Grants(g locking.Grants) locking.Grants {
	return &grants{Grants: g, recorder: r, sessions: map[uuid.UUID]locking.Session{}}
}

func (g *grants) OpenSession(ctx context.Context, s locking.Session) error {
	asked := Now()
	if s.Succeeds {
		g.recorder.record(Event{At: asked, Kind: Succeeds, Session: s.ID, Replica: s.Replica})
	}
	err := g.Grants.OpenSession(ctx, s)
	if err == nil {
		g.mu.Lock()
		g.sessions[s.ID] = s
		g.mu.Unlock()
		g.confirmed(asked, s.ID)
	}
	return err
}

func (g *grants) Heartbeat(ctx context.Context, session uuid.UUID) (locking.Beat, error) {
	asked := Now()
	beat, err := g.Grants.Heartbeat(ctx, session)
	if err == nil {
		g.confirmed(asked, session)
	}
	return beat, err
}

func (g *grants) confirmed(asked int64, session uuid.UUID) {
	g.mu.Lock()
	s := g.sessions[session]
	g.mu.Unlock()
	g.recorder.record(Event{At: asked, Kind: Confirmed, Session: session, TTL: s.TTL.Nanoseconds(), Replica: s.Replica})
}

func (g *grants) EndSession(ctx context.Context, session uuid.UUID) error {
	g.recorder.record(Event{At: Now(), Kind: Ending, Session: session})
	return g.Grants.EndSession(ctx, session)
}

func (g *grants) Grant(ctx context.Context, session uuid.UUID, requests []locking.GrantRequest) ([]locking.GrantResult, error) {
	results, err := g.Grants.Grant(ctx, session, requests)
	for _, result := range results {
		if result.Token != 0 {
			g.recorder.claimed(result.Token, session)
		}
	}
	return results, err
}

func (g *grants) Release(ctx context.Context, tokens []locking.Token) ([]bool, error) {
	asked := Now()
	for _, token := range tokens {
		g.recorder.record(Event{At: asked, Kind: Returning, Token: token})
	}
	return g.Grants.Release(ctx, tokens)
}
