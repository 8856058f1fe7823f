package accesstest

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"
)

// SignOuts are sign-outs in memory, which the replicas of a test share.
type SignOuts struct {
	mu      sync.Mutex
	byUser  map[string]int64
	down    bool
	queries int
}

// Generations returns all generations.
func (s *SignOuts) Generations(context.Context) (map[string]int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queries++
	if s.down {
		return nil, errors.New("store is down")
	}
	return maps.Clone(s.byUser), nil
}

// EndSignIns keeps the latest generation.
func (s *SignOuts) EndSignIns(_ context.Context, user string, generation int64,
	_ time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return errors.New("store is down")
	}
	if s.byUser == nil {
		s.byUser = make(map[string]int64)
	}
	s.byUser[user] = max(s.byUser[user], generation)
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
