package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	runsOfFiring = `SELECT` + recordColumns + `, '', NULL::text FROM holdfast.runs r
		WHERE r.job = $1 AND r.scheduled_at = $2 AND r.key = '' ORDER BY r.recovery`

	runsOfKey = `SELECT` + recordColumns + `, '', NULL::text FROM holdfast.runs r
		WHERE r.job = $1 AND r.key = $2 AND r.key <> '' ORDER BY r.recovery`

	runsBetween = `SELECT` + recordColumns + `, '', NULL::text FROM holdfast.runs r
		WHERE r.id BETWEEN $1 AND $2 ORDER BY r.id LIMIT $3`
)

// FiringRuns implements storage.Listings.
func (s *Store) FiringRuns(ctx context.Context, f storage.Firing) ([]storage.Record, error) {
	query, arg := runsOfFiring, any(f.ScheduledAt)
	if f.Key != "" {
		query, arg = runsOfKey, f.Key
	}
	rows, err := s.views.Query(ctx, query, f.Job, arg)
	if err != nil {
		return nil, wrap("list runs of a firing", err)
	}
	records, err := pgx.CollectRows(rows, scanRecord)
	return records, wrap("list runs of a firing", err)
}

// RunsBetween implements storage.Listings.
func (s *Store) RunsBetween(ctx context.Context, first, last uuid.UUID,
	limit int) ([]storage.Record, error) {
	rows, err := s.views.Query(ctx, runsBetween, first, last, limit)
	if err != nil {
		return nil, wrap("list runs by id", err)
	}
	records, err := pgx.CollectRows(rows, scanRecord)
	return records, wrap("list runs by id", err)
}
