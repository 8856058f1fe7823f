package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// Grants is a locking.Grants in memory. The cost of a request does not grow with the number of
// locks. It grows with the number and the depth of the requested resources. The search for
// reservations reads all waiters for these or related resources, so the cost also grows with their
// number. Its methods may be called concurrently.
type Grants struct {
	mu       sync.Mutex
	sessions map[uuid.UUID]*session
	expiry   time.Time // no live session expires before; zero: no session is live
	parties  map[uuid.UUID]*party
	claims   map[locking.Token]*party
	names    names
	token    locking.Token // the last one drawn
	age      uint64        // of the youngest waiter so far
}

// NewGrants returns Grants without locks.
func NewGrants() *Grants {
	return &Grants{
		sessions: map[uuid.UUID]*session{}, parties: map[uuid.UUID]*party{},
		claims: map[locking.Token]*party{}, names: names{},
	}
}

// begin locks the Grants for one call and expires sessions. It returns the function
// that unlocks them.
func (g *Grants) begin(ctx context.Context) (now time.Time, end func(), err error) {
	if ctx.Err() != nil {
		return time.Time{}, nil, fmt.Errorf("%w: %w", locking.ErrUnavailable, context.Cause(ctx))
	}
	g.mu.Lock()
	now = time.Now()
	g.expire(now)
	return now, g.mu.Unlock, nil
}

// Grant implements locking.Grants.
func (g *Grants) Grant(ctx context.Context, id uuid.UUID,
	requests []locking.GrantRequest) ([]locking.GrantResult, error) {
	now, end, err := g.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	s, err := g.liveSession(id)
	if err != nil {
		return nil, err
	}
	for _, r := range requests {
		if p := g.parties[r.ID]; p != nil && p.session != s {
			return nil, fmt.Errorf("lock %s belongs to another session", r.ID)
		}
	}
	results := make([]locking.GrantResult, len(requests))
	for i, r := range requests {
		results[i] = g.decide(s, r, now)
	}
	return results, nil
}

func (g *Grants) decide(s *session, r locking.GrantRequest, now time.Time) locking.GrantResult {
	p := g.parties[r.ID]
	if p == nil {
		p = &party{id: r.ID, owner: r.Owner, requests: slices.Clone(r.Requests), session: s,
			age: g.age + 1}
	}
	if p.token != 0 {
		return locking.GrantResult{Token: p.token} // the reply was lost
	}
	if found := g.names.firstBlocker(p, now); found != nil {
		if r.Wait {
			p.reserved = locking.Reserve(p.reserved, now, r.Reserve)
		}
		if r.Wait && p.since.IsZero() {
			g.age++
			g.admit(p, now)
		}
		return locking.GrantResult{Blocker: found.blocker()}
	}
	g.names.remove(p)
	g.token++
	p.token = g.token
	g.claims[p.token] = p
	g.admit(p, now)
	return locking.GrantResult{Token: p.token}
}

// admit adds a party to the waiters or the holders.
func (g *Grants) admit(p *party, now time.Time) {
	p.since = now
	g.parties[p.id] = p
	p.session.parties[p.id] = p
	g.names.add(p)
}

// removeParty removes a party from the holders or the waiters.
func (g *Grants) removeParty(p *party) {
	g.names.remove(p)
	delete(g.parties, p.id)
	delete(g.claims, p.token)
	delete(p.session.parties, p.id)
}

// Withdraw implements locking.Grants.
func (g *Grants) Withdraw(ctx context.Context, session uuid.UUID, ids []uuid.UUID) error {
	_, end, err := g.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	for _, id := range ids {
		if p := g.parties[id]; p != nil && p.session.ID == session {
			g.removeParty(p)
		}
	}
	return nil
}

// Release implements locking.Grants.
func (g *Grants) Release(ctx context.Context, tokens []locking.Token) (
	[]locking.ReleaseResult, error) {
	_, end, err := g.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	results := make([]locking.ReleaseResult, len(tokens))
	for i, token := range tokens {
		if p := g.claims[token]; p != nil {
			g.removeParty(p)
			results[i] = locking.ReleaseDone
		}
	}
	return results, nil
}

// Sweep implements locking.Grants.
func (g *Grants) Sweep(ctx context.Context) ([]locking.Released, error) {
	_, end, err := g.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	var swept []locking.Released
	for _, s := range g.sessions {
		if s.state != expired {
			continue
		}
		s.state = ended
		for _, p := range s.parties {
			swept = append(swept, locking.Released{ID: p.id, Token: p.token, Owner: p.owner,
				Requests: p.requests})
			g.removeParty(p)
		}
	}
	slices.SortFunc(swept, func(a, b locking.Released) int { return cmp.Compare(a.Token, b.Token) })
	return swept, nil
}
