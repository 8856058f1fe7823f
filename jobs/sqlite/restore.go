package sqlite

import (
	"context"
	"database/sql"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// raiseTokens raises them by more than a file draws in years: see jobs/postgres.
const raiseTokens = `UPDATE holdfast_meta SET last_token = last_token + 100000000000
RETURNING last_token - 100000000000, last_token`

// RaiseTokens implements storage.Tokens. It is for a file that was replaced by an older copy.
func (s *Store) RaiseTokens(ctx context.Context) (storage.RaisedTokens, error) {
	var raised storage.RaisedTokens
	err := s.write(ctx, "raise fencing tokens", func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, raiseTokens).Scan(&raised.From, &raised.To)
	})
	return raised, err
}
