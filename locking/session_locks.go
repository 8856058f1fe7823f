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

// callTimeout limits one call of Grants.
const callTimeout = 5 * time.Second

// sessionLocks are the locks that a Locker holds and requests in one session.
type sessionLocks struct {
	grants  Grants
	session uuid.UUID
	asks    *batch.Batch[claimCall, GrantResult]

	mu     sync.Mutex
	asking map[uuid.UUID]struct{} // locks that the grants may know, though they are not held
	held   map[Token]*Lock
	over   *LostError // the reason why the session ended
}

// claimCall requests a lock or withdraws a request. Both use one batcher, so that a
// request is decided before its withdrawal.
type claimCall struct {
	GrantRequest
	withdraw bool
}

func newSessionLocks(grants Grants, session uuid.UUID) *sessionLocks {
	s := &sessionLocks{grants: grants, session: session, asking: map[uuid.UUID]struct{}{},
		held: map[Token]*Lock{}}
	s.asks = batch.New(batch.Options[claimCall, GrantResult]{
		Send: s.send, Timeout: callTimeout, Most: MaxGrants,
		Weigh: func(p claimCall) int { return max(1, len(p.Requests)) },
		Whole: func(err error, _ time.Duration) bool {
			return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrSessionLost)
		},
	})
	return s
}

func (s *sessionLocks) send(ctx context.Context, calls []claimCall) ([]GrantResult, error) {
	var requests []GrantRequest
	var withdrawn []uuid.UUID
	var indexes []int // of the requests in calls
	for i, p := range calls {
		if p.withdraw {
			withdrawn = append(withdrawn, p.ID)
		} else {
			requests, indexes = append(requests, p.GrantRequest), append(indexes, i)
		}
	}
	results := make([]GrantResult, len(calls))
	if len(requests) > 0 {
		decided, err := s.grants.Grant(ctx, s.session, requests)
		if err != nil {
			return nil, err
		}
		for i, index := range indexes {
			results[index] = decided[i]
		}
	}
	if len(withdrawn) > 0 {
		if err := s.grants.Withdraw(ctx, s.session, withdrawn); err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (s *sessionLocks) begin(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking[id] = struct{}{}
}

func (s *sessionLocks) leave(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asking, id)
}

// add adds a granted lock. It returns false if the session has ended.
func (s *sessionLocks) add(lock *Lock) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return false
	}
	s.held[lock.token] = lock
	return true
}

func (s *sessionLocks) remove(token Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, token)
}

// locks returns the held locks by token.
func (s *sessionLocks) locks() map[Token]*Lock {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.held)
}

// abandoned returns the claims and waiters of the session that this Locker does not
// know. They belong to abandoned requests whose replies were lost. A waiter in the
// reply may have been granted since, and a withdrawal would release its claim. So
// waiters of held locks are left out.
func (s *sessionLocks) abandoned(reply HeartbeatReply) (claims []Token, waits []uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for token, id := range reply.Claims {
		if _, asked := s.asking[id]; !asked && s.held[token] == nil {
			claims = append(claims, token)
		}
	}
	for _, id := range reply.Waiting {
		if _, asked := s.asking[id]; !asked && !s.holds(id) {
			waits = append(waits, id)
		}
	}
	return claims, waits
}

// holds reports whether a lock with that id is held. The caller holds s.mu.
func (s *sessionLocks) holds(id uuid.UUID) bool {
	for _, lock := range s.held {
		if lock.id == id.String() {
			return true
		}
	}
	return false
}

// lose ends all locks, and has add refuse further ones.
func (s *sessionLocks) lose(cause error) {
	s.mu.Lock()
	s.over = &LostError{Reason: LossSession, Err: cause}
	s.mu.Unlock()
	for _, lock := range s.locks() {
		lock.lose(s.over)
	}
}
