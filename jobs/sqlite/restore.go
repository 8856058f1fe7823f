package sqlite

import (
	"context"
	"database/sql"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// raiseTokens raises them by more than a file draws in years: see jobs/postgres.
const raiseTokens = `UPDATE holdfast_meta SET last_token = last_token + 100000000000
RETURNING last_token - 100000000000, last_token`

// RaiseTokens makes all later tokens larger than those that were drawn before an older copy of the
// file was put back.
func (s *Store) RaiseTokens(ctx context.Context) (storage.RaisedTokens, error) {
	var raised storage.RaisedTokens
	err := s.write(ctx, "raise fencing tokens", func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, raiseTokens).Scan(&raised.From, &raised.To)
	})
	return raised, err
}
