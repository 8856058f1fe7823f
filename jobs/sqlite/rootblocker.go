package sqlite

import (
	"context"
	"database/sql"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
)

// maxChain bounds the search along waiting blockers, and so ends a cycle.
const maxChain = 8

const claimExists = `SELECT EXISTS (SELECT 1 FROM holdfast_claims WHERE run = ?1)`

// root returns the holder for which the waiter waits, directly or through other waiters. Each
// waiter's blocker is that of its last refusal. root returns zero if the holder has released its
// lock since.
func (st *starter) root(ctx context.Context, tx *sql.Tx, waiter uuid.UUID) (jobs.Root, error) {
	for range maxChain {
		b, err := st.blockerOf(ctx, tx, waiter)
		if err != nil || b == nil {
			return jobs.Root{}, err
		}
		if waiter, err = uuid.Parse(b.Holder.Run); err != nil {
			return jobs.Root{}, nil // a blocker with only an advisory lock may not be a run
		}
		if !b.Waiting {
			return st.rootIfHeld(ctx, tx, waiter, b)
		}
	}
	return jobs.Root{}, nil
}

func (st *starter) rootIfHeld(ctx context.Context, tx *sql.Tx, holder uuid.UUID,
	b *jobs.Blocker) (jobs.Root, error) {
	holds := false
	for _, c := range st.claims {
		holds = holds || c.run == holder
	}
	if !holds {
		if err := tx.QueryRowContext(ctx, claimExists, holder).Scan(&holds); err != nil || !holds {
			return jobs.Root{}, err
		}
	}
	return jobs.Root{Resource: b.Resource, Holder: b.Holder}, nil
}

// blockerOf returns the blocker of a waiting run, which this batch may have decided on already.
func (st *starter) blockerOf(ctx context.Context, tx *sql.Tx,
	run uuid.UUID) (*jobs.Blocker, error) {
	for i := len(st.runs) - 1; i >= 0; i-- {
		if st.runs[i].ID == run {
			record, err := st.runs[i].record()
			return record.BlockedBy, err
		}
	}
	records, err := recordsOf(ctx, tx, []uuid.UUID{run})
	if err != nil || len(records) == 0 {
		return nil, err
	}
	return records[0].BlockedBy, nil
}
