package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	generations = `
SELECT name, generation FROM holdfast.sign_outs WHERE until > clock_timestamp()`

	endSignIns = `
INSERT INTO holdfast.sign_outs AS s (name, generation, until)
VALUES ($1, $2, clock_timestamp() + $3::interval)
ON CONFLICT (name) DO UPDATE SET generation = greatest(s.generation, excluded.generation),
    until = greatest(s.until, excluded.until)`

	forgetSignOuts = `DELETE FROM holdfast.sign_outs WHERE until <= clock_timestamp()`
)

// Generations implements storage.SignOuts.
func (s *Store) Generations(ctx context.Context) (map[string]int64, error) {
	rows, err := s.views.Query(ctx, generations)
	if err != nil {
		return nil, wrap("read sign-outs", err)
	}
	found := make(map[string]int64)
	var name string
	var generation int64
	_, err = pgx.ForEachRow(rows, []any{&name, &generation}, func() error {
		found[name] = generation
		return nil
	})
	return found, wrap("read sign-outs", err)
}

// EndSignIns implements storage.SignOuts.
func (s *Store) EndSignIns(ctx context.Context, user string,
	generation int64, keep time.Duration) error {
	_, err := s.views.Exec(ctx, endSignIns, user, generation, keep)
	return wrap("end sign-ins", err)
}
