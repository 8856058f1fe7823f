package sqlite

import (
	"context"
	"database/sql"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs"
)

const claimExists = `SELECT EXISTS (SELECT 1 FROM holdfast_claims WHERE run = ?1)`

// root returns the holder for which the waiter waits, directly or through other waiters.
func (st *starter) root(ctx context.Context, tx *sql.Tx, waiter uuid.UUID) (jobs.Root, error) {
	return rules.Root(waiter, func(run uuid.UUID) (*jobs.Blocker, error) {
		return st.blockerOf(ctx, tx, run)
	}, func(run uuid.UUID) (holds bool, err error) {
		for _, c := range st.claims {
			holds = holds || c.run == run
		}
		if !holds {
			err = tx.QueryRowContext(ctx, claimExists, run).Scan(&holds)
		}
		return holds, err
	})
}

// blockerOf returns the blocker of a waiting run, which this batch may have decided on already.
func (st *starter) blockerOf(ctx context.Context, tx *sql.Tx,
	run uuid.UUID) (*jobs.Blocker, error) {
	for i := len(st.runs) - 1; i >= 0; i-- {
		if st.runs[i].ID == run {
			return st.runs[i].BlockedBy, nil
		}
	}
	records, err := recordsOf(ctx, tx, []uuid.UUID{run})
	if err != nil || len(records) == 0 {
		return nil, err
	}
	return records[0].BlockedBy, nil
}
