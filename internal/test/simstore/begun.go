package simstore

import (
	"context"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Begun implements storage.Firings.
func (s *Store) Begun(ctx context.Context, firings []storage.Firing) ([]bool, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	begun := make([]bool, len(firings))
	for i, f := range firings {
		begun[i] = s.firings[firingOf(f)] != nil
	}
	return begun, nil
}
