package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	isWatched = `SELECT 1 FROM holdfast_watches WHERE run = ?1 AND until > ?2`

	forgetWatches = `DELETE FROM holdfast_watches WHERE until < ?1`

	watchRun = `
INSERT INTO holdfast_watches (run, until) SELECT id, ?2 FROM holdfast_runs
    WHERE id = ?1 AND state = 'running'
ON CONFLICT (run) DO UPDATE SET until = excluded.until`

	watchesOf = `
SELECT w.run FROM holdfast_watches w CROSS
    JOIN holdfast_claims k ON k.run = w.run WHERE k.session = ?1 AND w.until > ?2 ORDER BY w.run`

	keepTail = `
INSERT INTO holdfast_outputs (run, output) SELECT run, ?2 FROM holdfast_claims WHERE token = ?1
ON CONFLICT (run) DO UPDATE SET output = excluded.output`
)

// Watch implements storage.Watching.
func (s *Store) Watch(ctx context.Context, run uuid.UUID) error {
	now := time.Now()
	var one int
	err := s.readers.QueryRowContext(ctx, isWatched, run, micros(now.Add(storage.WatchLasts/2))).
		Scan(&one)
	if err != sql.ErrNoRows {
		return wrap("watch run", err)
	}
	return s.write(ctx, "watch run", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, forgetWatches, micros(now)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, watchRun, run, micros(now.Add(storage.WatchLasts)))
		return err
	})
}

// SaveOutput implements storage.Watching.
func (s *Store) SaveOutput(ctx context.Context, outputs []storage.Output) error {
	return s.write(ctx, "save output", func(tx *sql.Tx) error {
		for _, o := range outputs {
			if _, err := tx.ExecContext(ctx, keepTail, o.Token,
				output.PlainText(o.Text)); err != nil {
				return err
			}
		}
		return nil
	})
}
