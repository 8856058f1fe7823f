package sqlite

import (
	"context"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	runsOfFiring = `SELECT ` + runColumns + ` FROM holdfast_runs r
		WHERE r.job = ?1 AND r.scheduled_at = ?2 AND r.key = '' ORDER BY r.recovery`

	runsOfKey = `SELECT ` + runColumns + ` FROM holdfast_runs r
		WHERE r.job = ?1 AND r.key = ?2 AND r.key <> '' ORDER BY r.recovery`

	runsBetween = `SELECT ` + runColumns + ` FROM holdfast_runs r
		WHERE r.id BETWEEN ?1 AND ?2 ORDER BY r.id LIMIT ?3`
)

// FiringRuns implements storage.Listings.
func (s *Store) FiringRuns(ctx context.Context, f storage.Firing) ([]storage.Record, error) {
	query, arg := runsOfFiring, any(micros(f.ScheduledAt))
	if f.Key != "" {
		query, arg = runsOfKey, f.Key
	}
	records, err := s.records(ctx, query, f.Job, arg)
	return records, wrap("list runs of a firing", err)
}

// RunsBetween implements storage.Listings.
func (s *Store) RunsBetween(ctx context.Context, first, last uuid.UUID,
	limit int) ([]storage.Record, error) {
	records, err := s.records(ctx, runsBetween, first, last, limit)
	return records, wrap("list runs by id", err)
}
