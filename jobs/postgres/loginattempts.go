package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	countFailures = `
SELECT k.place, a.count, a.until - clock_timestamp()
    FROM unnest($1::text[]) WITH ORDINALITY AS k (key, place)
JOIN holdfast.login_attempts a ON a.key = k.key COLLATE "C" WHERE a.until > clock_timestamp()`

	// Rows are locked in the order of their keys, as in all statements.
	addFailure = `
INSERT INTO holdfast.login_attempts AS a (key, count, until)
SELECT k, 1, t + $2::interval FROM unnest($1::text[]) k, clock_timestamp() t ORDER BY k COLLATE "C"
ON CONFLICT (key) DO UPDATE SET
    count = CASE WHEN a.until > clock_timestamp() THEN a.count + 1 ELSE 1 END,
    until = CASE WHEN a.until > clock_timestamp() THEN a.until ELSE excluded.until END`

	forgetFailures = `
DELETE FROM holdfast.login_attempts WHERE key = ANY(ARRAY(
    SELECT key FROM holdfast.login_attempts WHERE until <= clock_timestamp()
        ORDER BY key LIMIT 10000 FOR UPDATE SKIP LOCKED))`
)

// CountFailures implements storage.LoginAttempts.
func (s *Store) CountFailures(ctx context.Context, keys ...string) ([]storage.Failures, error) {
	rows, err := s.views.Query(ctx, countFailures, keys)
	if err != nil {
		return nil, wrap("count failures", err)
	}
	found := make([]storage.Failures, len(keys))
	var place int
	var one storage.Failures
	_, err = pgx.ForEachRow(rows, []any{&place, &one.Count, &one.Left}, func() error {
		found[place-1] = one
		return nil
	})
	return found, wrap("count failures", err)
}

// AddFailure implements storage.LoginAttempts.
func (s *Store) AddFailure(ctx context.Context, window time.Duration, keys ...string) error {
	_, err := s.views.Exec(ctx, addFailure, keys, window)
	return wrap("add failure", err)
}
