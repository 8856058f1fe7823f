package locking

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/batch"
)

// callTimeout bounds one call of Grants.
const callTimeout = 5 * time.Second

// standing is what a Locker holds and asks for in one session.
type standing struct {
	grants  Grants
	session uuid.UUID
	asks    *batch.Batch[plea, GrantResult]

	mu     sync.Mutex
	asking map[uuid.UUID]struct{} // locks that the grants may know of, though they are not held
	held   map[Token]*Lock
	over   *LostError // why the session ended
}

// plea asks for a lock, or takes back what was asked. Both go one way, so that
// what is taken back was decided before.
type plea struct {
	GrantRequest
	withdraw bool
}

func newStanding(grants Grants, session uuid.UUID) *standing {
	s := &standing{grants: grants, session: session, asking: map[uuid.UUID]struct{}{},
		held: map[Token]*Lock{}}
	s.asks = batch.New(batch.Options[plea, GrantResult]{
		Send: s.send, Timeout: callTimeout, Most: MaxGrants,
		Weigh: func(p plea) int { return max(1, len(p.Requests)) },
		Whole: func(err error, _ time.Duration) bool {
			return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrSessionLost)
		},
	})
	return s
}

func (s *standing) send(ctx context.Context, pleas []plea) ([]GrantResult, error) {
	var requests []GrantRequest
	var withdrawn []uuid.UUID
	var places []int // of the requests
	for i, p := range pleas {
		if p.withdraw {
			withdrawn = append(withdrawn, p.ID)
		} else {
			requests, places = append(requests, p.GrantRequest), append(places, i)
		}
	}
	results := make([]GrantResult, len(pleas))
	if len(requests) > 0 {
		decided, err := s.grants.Grant(ctx, s.session, requests)
		if err != nil {
			return nil, err
		}
		for i, place := range places {
			results[place] = decided[i]
		}
	}
	if len(withdrawn) > 0 {
		if err := s.grants.Withdraw(ctx, s.session, withdrawn); err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (s *standing) begin(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking[id] = struct{}{}
}

func (s *standing) leave(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asking, id)
}

// add takes a lock that was granted, unless the session has ended.
func (s *standing) add(lock *Lock) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return false
	}
	s.held[lock.token] = lock
	return true
}

func (s *standing) remove(token Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, token)
}

// locks returns what is held, by token.
func (s *standing) locks() map[Token]*Lock {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.held)
}

// strangers returns the claims and places that the session has and nobody here
// knows of: what was asked was given up, and the reply was lost. What had a
// place as the beat was answered may have been granted since: a withdrawal
// would take its claim.
func (s *standing) strangers(beat Beat) (claims []Token, places []uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for token, id := range beat.Claims {
		if _, asked := s.asking[id]; !asked && s.held[token] == nil {
			claims = append(claims, token)
		}
	}
	for _, id := range beat.Waiting {
		if _, asked := s.asking[id]; !asked && !s.holds(id) {
			places = append(places, id)
		}
	}
	return claims, places
}

// holds reports whether a lock of that id is held. s.mu is held.
func (s *standing) holds(id uuid.UUID) bool {
	for _, lock := range s.held {
		if lock.id == id.String() {
			return true
		}
	}
	return false
}

// lose ends all locks, and those that are granted from now on.
func (s *standing) lose(cause error) {
	s.mu.Lock()
	s.over = &LostError{Reason: LossSession, Err: cause}
	s.mu.Unlock()
	for _, lock := range s.locks() {
		lock.lose(s.over)
	}
}
