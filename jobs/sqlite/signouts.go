package sqlite

import (
	"context"
	"database/sql"
	"time"
)

// The generation of a user is the time of the last sign-out in microseconds. So it grows also after
// the row of an earlier sign-out was deleted.
const (
	generations = `SELECT name, generation FROM holdfast_sign_outs WHERE until > ?1`

	endSignIns = `
INSERT INTO holdfast_sign_outs AS s (name, generation, until) VALUES (?1, ?2, ?3)
ON CONFLICT (name) DO UPDATE SET generation = max(s.generation + 1, excluded.generation),
    until = max(s.until, excluded.until)
RETURNING generation`

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
	keep time.Duration) (generation int64, err error) {
	err = s.write(ctx, "end sign-ins", func(tx *sql.Tx) error {
		now := time.Now()
		return tx.QueryRowContext(ctx, endSignIns, user, micros(now),
			micros(now.Add(keep))).Scan(&generation)
	})
	return generation, err
}
