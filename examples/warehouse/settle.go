package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// settleLimit is some twenty times what the jobs need with locks. Without
// them they may fail again and again.
const settleLimit = time.Minute

// errNotSettled says that the jobs did not catch up with the load.
var errNotSettled = errors.New("the jobs have not caught up with the load")

// settleRounds are the jobs that must succeed once more after the load has
// ended: first those that read what it wrote, then those that read totals.
func settleRounds() [][]string {
	return [][]string{
		{"rollup-deposits", "rollup-withdrawals", "rebuild-seconds", "rebuild-accounts"},
		{"refresh-shares"},
	}
}

// settle waits, after the load has ended, until every total has been written
// by a run that saw all of it. It returns errNotSettled when that takes longer
// than the limit.
func settle(ctx context.Context, db *pgx.Conn, history storage.History) error {
	deadline := time.Now().Add(settleLimit)
	if err := waitForHorizon(ctx, deadline, db); err != nil {
		return err
	}
	for _, round := range settleRounds() {
		since, err := history.Now(ctx)
		if err != nil {
			return err
		}
		for _, job := range round {
			if err := waitForRun(ctx, deadline, history, job, since); err != nil {
				return err
			}
		}
	}
	return nil
}

// waitForHorizon waits until no transaction is left that is as old as the
// load: from then on the xmin of every snapshot is above all of its rows.
func waitForHorizon(ctx context.Context, deadline time.Time, db *pgx.Conn) error {
	var mine string
	if err := db.QueryRow(ctx, "SELECT pg_current_xact_id()::text").Scan(&mine); err != nil {
		return fmt.Errorf("horizon: %w", err)
	}
	return poll(ctx, deadline, errNotSettled, func() (passed bool, err error) {
		err = db.QueryRow(ctx, "SELECT pg_snapshot_xmin(pg_current_snapshot()) > $1::text::xid8",
			mine).Scan(&passed)
		return passed, err
	})
}

// waitForRun waits for a run of the job that began after since and succeeded.
func waitForRun(ctx context.Context, deadline time.Time, history storage.History, job string,
	since time.Time) error {
	return poll(ctx, deadline, errNotSettled, func() (bool, error) {
		runs, err := history.Runs(ctx,
			storage.RunFilter{Job: job, States: []jobs.State{jobs.Succeeded}, Limit: 1})
		return err == nil && len(runs) == 1 && runs[0].StartedAt.After(since), err
	})
}
