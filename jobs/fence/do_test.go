package fence

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestPassBeginsAgainAfterADeadlock checks after which errors a new transaction is tried, and that
// the failed one is closed first.
func TestPassBeginsAgainAfterADeadlock(t *testing.T) {
	for _, test := range []struct {
		dialect Dialect
		err     error
		again   bool
	}{
		{Postgres(), &pgconn.PgError{Code: "40P01"}, true},
		{Postgres(), &pgconn.PgError{Code: "40001"}, true},
		{Postgres(), &pgconn.PgError{Code: "42P01"}, false},
		{MariaDB(), errors.New("Error 1213 (40001): Deadlock found"), true},
		{MySQL(), errors.New("Error 1205 (HY000): Lock wait timeout exceeded"), true},
		{MySQL(), errors.New("Error 1146 (42S02): Table 'x' doesn't exist"), false},
		{MySQL(), errors.New("Error 12130 (X): else"), false},
	} {
		passes, open := 0, 0
		_, err := beginFenced(t.Context(), nil, func(Tx) error {
			if passes++; passes == 1 {
				return fmt.Errorf("fence check: %w", test.err)
			}
			return nil
		}, func(context.Context) (*opened, error) {
			if open++; open > 1 {
				t.Errorf("%v: began again before the first transaction was closed", test.err)
			}
			return &opened{tx: Tx{dialect: test.dialect}, close: func() { open-- }}, nil
		})
		if again := err == nil; again != test.again || !again && !errors.Is(err, test.err) ||
			passes == 2 != test.again {
			t.Errorf("%v: got %v after %d passes, want a second one: %t", test.err, err, passes,
				test.again)
		}
	}
}
