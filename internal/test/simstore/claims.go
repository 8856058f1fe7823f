package simstore

import (
	"context"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Claims implements storage.Firings.
func (s *Store) Claims(ctx context.Context, runs []uuid.UUID) ([]storage.RunClaim, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	claims := make([]storage.RunClaim, len(runs))
	for i, run := range runs {
		if r := s.runs[run]; r != nil && s.claims[r.Token] != nil {
			claims[i] = storage.RunClaim{Exists: true, Backfill: r.Backfill != uuid.Nil,
				Paused: s.pauseOver(r.Job) != nil}
		}
	}
	return claims, nil
}
