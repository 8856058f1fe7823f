package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	countFailures = `SELECT q.key, a.count, a.until FROM json_each(?1) q CROSS
		JOIN holdfast_login_attempts a ON a.key = q.value WHERE a.until > ?2`

	addFailure = `
INSERT INTO holdfast_login_attempts AS a (key, count, until) SELECT value, 1, ?3 FROM json_each(?1)
    WHERE true
ON CONFLICT (key) DO UPDATE SET
    count = CASE WHEN a.until > ?2 THEN a.count + 1 ELSE 1 END,
    until = CASE WHEN a.until > ?2 THEN a.until ELSE excluded.until END`

	forgetFailures = `DELETE FROM holdfast_login_attempts WHERE until <= ?1`
)

// CountFailures implements storage.LoginAttempts. It does not wait for the writer.
func (s *Store) CountFailures(ctx context.Context, keys ...string) ([]storage.Failures, error) {
	encoded, err := encode(keys)
	if err != nil {
		return nil, err
	}
	found, now := make([]storage.Failures, len(keys)), micros(time.Now())
	err = each(ctx, s.readers, countFailures, []any{encoded, now}, func(rows *sql.Rows) error {
		var place, count int
		var until int64
		err := rows.Scan(&place, &count, &until)
		found[place] = storage.Failures{Count: count,
			Left: time.Duration(until-now) * time.Microsecond}
		return err
	})
	return found, wrap("count failures", err)
}

// AddFailure implements storage.LoginAttempts. It waits for the writer until ctx ends.
func (s *Store) AddFailure(ctx context.Context, window time.Duration, keys ...string) error {
	encoded, err := encode(keys)
	if err != nil {
		return err
	}
	return s.write(ctx, "add failure", func(tx *sql.Tx) error {
		now := time.Now()
		_, err := tx.ExecContext(ctx, addFailure, encoded, micros(now), micros(now.Add(window)))
		return err
	})
}
