package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/postgres"
)

// handlers are the warehouse's jobs in Go; the others are sql.
func handlers() []jobs.Registration {
	return []jobs.Registration{
		jobs.Handle("rollup-withdrawals", rollupWithdrawals),
		jobs.Handle("refresh-shares", refreshShares),
		jobs.Handle("rebuild-accounts", rebuildAccounts),
	}
}

// pauseParams say how long a job stays inside its transaction, where a larger
// warehouse would be at work.
type pauseParams struct {
	Pause jobs.Duration `json:"pause"`
}

func (p pauseParams) in(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "SELECT pg_sleep($1)", time.Duration(p.Pause).Seconds())
	return err
}

const (
	readMark = `SELECT done::text, pg_snapshot_xmin(pg_current_snapshot())::text FROM marks
		WHERE rollup = 'withdrawals'`
	moveMark = `UPDATE marks SET done = $1::text::xid8 WHERE rollup = 'withdrawals'`

	addToTellers = `
INSERT INTO teller_totals AS t (tid, entries, amount)
SELECT tid, count(*), sum(delta) FROM pgbench_history
WHERE xact >= $1::text::xid8 AND xact < $2::text::xid8 AND delta < 0 GROUP BY tid
ON CONFLICT (tid) DO UPDATE SET entries = t.entries + EXCLUDED.entries,
    amount = t.amount + EXCLUDED.amount`

	addToBranches = `
INSERT INTO branch_totals AS t (bid, entries, amount)
SELECT bid, count(*), sum(delta) FROM pgbench_history
WHERE xact >= $1::text::xid8 AND xact < $2::text::xid8 AND delta < 0 GROUP BY bid
ON CONFLICT (bid) DO UPDATE SET entries = t.entries + EXCLUDED.entries,
    amount = t.amount + EXCLUDED.amount`
)

// rollupWithdrawals adds what is new since its mark. Effects, mark and the
// run's success are one transaction: it has added the rows or it has not.
func rollupWithdrawals(ctx context.Context, run *jobs.Run, p pauseParams) error {
	return postgres.CompleteInTx(ctx, run, func(tx pgx.Tx) error {
		var from, to string
		if err := tx.QueryRow(ctx, readMark).Scan(&from, &to); err != nil {
			return fmt.Errorf("mark: %w", err)
		}
		if _, err := tx.Exec(ctx, addToTellers, from, to); err != nil {
			return fmt.Errorf("tellers: %w", err)
		}
		if err := p.in(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, addToBranches, from, to); err != nil {
			return fmt.Errorf("branches: %w", err)
		}
		if _, err := tx.Exec(ctx, moveMark, to); err != nil {
			return fmt.Errorf("new mark: %w", err)
		}
		return nil
	})
}

// writeShares is in millionths.
const writeShares = `
UPDATE branch_totals t SET share = s.share
FROM (SELECT bid, entries * 1000000 / greatest(sum(entries) OVER (), 1) AS share
    FROM branch_totals) s
WHERE t.bid = s.bid`

// refreshShares needs one snapshot of all branches. So it has a transaction of its own, at
// REPEATABLE READ, which begins with the fence check like all transactions of jobs.
func refreshShares(ctx context.Context, run *jobs.Run, p pauseParams) error {
	its := run.Internal(attempt.NewKey()).Store
	store, ok := its.(*postgres.Store)
	if !ok {
		return fmt.Errorf("shares: the store is %T, expected PostgreSQL", its)
	}
	return pgx.BeginTxFunc(ctx, store.Pool(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead},
		func(tx pgx.Tx) error {
			if err := postgres.Fence(ctx, tx, run); err != nil {
				return err
			}
			if err := p.in(ctx, tx); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, writeShares); err != nil {
				return fmt.Errorf("shares: %w", err)
			}
			return nil
		})
}

const sumAccounts = `
INSERT INTO account_totals (bid, entries, amount) SELECT bid, count(*), sum(abalance)
    FROM pgbench_accounts GROUP BY bid`

// rebuildAccounts writes its table anew, so that it may be run again at will.
func rebuildAccounts(ctx context.Context, run *jobs.Run, _ struct{}) error {
	return postgres.InTx(ctx, run, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "DELETE FROM account_totals"); err != nil {
			return fmt.Errorf("old balances: %w", err)
		}
		if _, err := tx.Exec(ctx, sumAccounts); err != nil {
			return fmt.Errorf("new balances: %w", err)
		}
		return nil
	})
}
