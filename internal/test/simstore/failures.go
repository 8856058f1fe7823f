package simstore

import (
	"context"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// FailuresBefore implements storage.Listings.
func (s *Store) FailuresBefore(ctx context.Context,
	runs []storage.RunBefore) (map[string]storage.FailedRuns, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	found := make(map[string]storage.FailedRuns, len(runs))
	for _, of := range runs {
		before := storage.Record{CreatedAt: of.Before.CreatedAt, ID: of.Before.ID}
		var outcomes []storage.Outcome
		for _, r := range s.sorted() {
			if r.Job == of.Job && r.Backfill == uuid.Nil && younger(before, r) < 0 &&
				len(outcomes) < storage.MaxFailures {
				outcomes = append(outcomes, storage.Outcome{State: r.State,
					ScheduledAt: r.ScheduledAt, FinishedAt: r.FinishedAt})
			}
		}
		found[of.Job] = storage.CountFailures(outcomes)
	}
	return found, nil
}
