package accesstest

import (
	"context"
	"errors"
	"sync"
	"time"
)

// SignOuts are sign-outs in memory, which the replicas of a test share.
type SignOuts struct {
	mu      sync.Mutex
	byUser  map[string]signOut
	down    bool
	queries int
}

type signOut struct {
	generation int64
	until      time.Time
}

// Generations returns the generations that are still kept.
func (s *SignOuts) Generations(context.Context) (map[string]int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queries++
	if s.down {
		return nil, errors.New("store is down")
	}
	generations := make(map[string]int64)
	for user, last := range s.byUser {
		if time.Now().Before(last.until) {
			generations[user] = last.generation
		}
	}
	return generations, nil
}

// EndSignIns keeps the largest generation of a user.
func (s *SignOuts) EndSignIns(_ context.Context, user string, generation int64,
	keep time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return errors.New("store is down")
	}
	if s.byUser == nil {
		s.byUser = make(map[string]signOut)
	}
	s.byUser[user] = signOut{max(s.byUser[user].generation, generation), time.Now().Add(keep)}
	return nil
}

// SetDown makes all calls fail from now on, or succeed again.
func (s *SignOuts) SetDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// Queries returns how often Generations was called.
func (s *SignOuts) Queries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queries
}
