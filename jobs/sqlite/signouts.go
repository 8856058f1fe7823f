package sqlite

import (
	"context"
	"database/sql"
	"time"
)

const (
	generations = `SELECT name, generation FROM holdfast_sign_outs WHERE until > ?1`

	endSignIns = `
INSERT INTO holdfast_sign_outs AS s (name, generation, until) VALUES (?1, ?2, ?3)
ON CONFLICT (name) DO UPDATE SET generation = max(s.generation, excluded.generation),
    until = max(s.until, excluded.until)`

	forgetSignOuts = `DELETE FROM holdfast_sign_outs WHERE until <= ?1`
)

// Generations implements storage.SignOuts. It does not wait for the writer.
func (s *Store) Generations(ctx context.Context) (map[string]int64, error) {
	found := make(map[string]int64)
	err := each(ctx, s.readers, generations, []any{micros(time.Now())}, func(rows *sql.Rows) error {
		var name string
		var generation int64
		err := rows.Scan(&name, &generation)
		found[name] = generation
		return err
	})
	return found, wrap("read sign-outs", err)
}

// EndSignIns implements storage.SignOuts. It waits for the writer until ctx ends.
func (s *Store) EndSignIns(ctx context.Context, user string,
	generation int64, keep time.Duration) error {
	return s.write(ctx, "end sign-ins", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, endSignIns, user, generation, micros(time.Now().Add(keep)))
		return err
	})
}
