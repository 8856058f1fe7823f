package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/postgres"
)

// handlers are the warehouse's jobs in Go; the others are sql. The pool belongs to the program.
func handlers(pool *pgxpool.Pool) []jobs.Registration {
	return []jobs.Registration{
		jobs.Handle("rollup-withdrawals", rollupWithdrawals),
		jobs.Handle("refresh-shares", shares{pool}.refresh),
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

// shares computes the share of each branch. It needs one snapshot of all branches, so it uses a
// transaction of its own, at REPEATABLE READ, on a connection of the program.
type shares struct{ pool *pgxpool.Pool }

// refresh begins its transaction with the fence check.
func (s shares) refresh(ctx context.Context, run *jobs.Run, p pauseParams) error {
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead},
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
