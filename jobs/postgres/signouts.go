package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// The generation of a user is the time of the last sign-out in microseconds. So it grows also after
// the row of an earlier sign-out was deleted.
const (
	generations = `
SELECT name, generation FROM holdfast.sign_outs WHERE until > clock_timestamp()`

	endSignIns = `
INSERT INTO holdfast.sign_outs AS s (name, generation, until)
SELECT $1, (extract(epoch FROM t) * 1000000)::bigint, t + $2::interval FROM clock_timestamp() t
ON CONFLICT (name) DO UPDATE SET
    generation = greatest(s.generation + 1, excluded.generation),
    until = greatest(s.until, excluded.until)
RETURNING generation`

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
	keep time.Duration) (generation int64, err error) {
	err = s.views.QueryRow(ctx, endSignIns, user, keep).Scan(&generation)
	return generation, wrap("end sign-ins", err)
}
