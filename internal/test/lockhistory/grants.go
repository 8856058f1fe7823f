package lockhistory

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// grants records sessions, and since when a claim may exist.
type grants struct {
	locking.Grants
	recorder *Recorder

	mu       sync.Mutex
	sessions map[uuid.UUID]locking.Session
	open     map[uuid.UUID]*asked // by lock
}

// asked records the unanswered calls of a lock.
type asked struct {
	from  int64 // the first of them
	calls int
}

// Grants returns g with a record of its calls. The sessions show until when unreleased locks were
// held at least. The calls show when a waiting lock was granted. Without that, porcupine would try
// all orders of the waiters.
func (r *Recorder) Grants(g locking.Grants) locking.Grants {
	return &grants{Grants: g, recorder: r, sessions: map[uuid.UUID]locking.Session{},
		open: map[uuid.UUID]*asked{}}
}

func (g *grants) OpenSession(ctx context.Context, s locking.Session) error {
	asked := Now()
	if s.ReplaceEarlier {
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

func (g *grants) Heartbeat(ctx context.Context, session uuid.UUID) (locking.HeartbeatReply, error) {
	asked := Now()
	reply, err := g.Grants.Heartbeat(ctx, session)
	if err == nil {
		g.confirmed(asked, session)
	}
	return reply, err
}

func (g *grants) confirmed(asked int64, session uuid.UUID) {
	g.mu.Lock()
	s := g.sessions[session]
	g.mu.Unlock()
	g.recorder.record(Event{At: asked, Kind: Confirmed, Session: session, TTL: s.TTL.Nanoseconds(),
		Replica: s.Replica})
}

func (g *grants) EndSession(ctx context.Context, session uuid.UUID) error {
	g.recorder.record(Event{At: Now(), Kind: Ending, Session: session})
	return g.Grants.EndSession(ctx, session)
}

func (g *grants) Grant(ctx context.Context, session uuid.UUID,
	requests []locking.GrantRequest) ([]locking.GrantResult, error) {
	g.ask(requests)
	results, err := g.Grants.Grant(ctx, session, requests)
	if err != nil {
		return results, err // a later answer may show the effect
	}
	for i, result := range results {
		from := g.answer(requests[i].ID)
		if result.Token != 0 {
			g.recorder.claimed(result.Token, claim{session, from})
		}
	}
	return results, nil
}

func (g *grants) ask(requests []locking.GrantRequest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := Now()
	for _, r := range requests {
		if g.open[r.ID] == nil {
			g.open[r.ID] = &asked{from: now}
		}
		g.open[r.ID].calls++
	}
}

// answer returns the earliest time at which the lock may have its claim: that of the first call
// that has no other answer.
func (g *grants) answer(lock uuid.UUID) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.open[lock]
	if a.calls--; a.calls == 0 {
		delete(g.open, lock)
	}
	return a.from
}

func (g *grants) Release(ctx context.Context, tokens []locking.Token) (
	[]locking.ReleaseResult, error) {
	asked := Now()
	for _, token := range tokens {
		g.recorder.record(Event{At: asked, Kind: Returning, Token: token})
	}
	return g.Grants.Release(ctx, tokens)
}
