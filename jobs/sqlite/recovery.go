package sqlite

import (
	"context"
	"database/sql"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// recoveredRuns finds the runs that their active definitions recover, unless they were to be
// cancelled.
const recoveredRuns = `
SELECT r.id FROM json_each(?1) q CROSS JOIN holdfast_runs r ON r.id = q.value CROSS
    JOIN holdfast_jobs j ON j.name = r.job
CROSS JOIN holdfast_definitions d ON d.job = j.name AND d.version = j.version WHERE d.recover
    AND NOT EXISTS (SELECT 1 FROM holdfast_cancels k WHERE k.run = r.id)`

// recoverRuns adds the successors of lost runs, and completes the details of the runs that have no
// further successor.
func recoverRuns(ctx context.Context, tx *sql.Tx, ends []endRow, now int64) error {
	var lost []uuid.UUID
	place := map[uuid.UUID]int{}
	for i, end := range ends {
		if end.state == jobs.Lost {
			lost, place[end.run] = append(lost, end.run), i
		}
	}
	if len(lost) == 0 {
		return nil
	}
	runs, err := recovered(ctx, tx, lost)
	if err != nil {
		return err
	}
	var successors []runRow
	for _, run := range runs {
		end := &ends[place[run.ID]]
		if next, more := run.Successor(end.reason, fromMicros(now)); more {
			successors = append(successors, runRow{Run: next})
		} else {
			end.detail += storage.NotRecovered
		}
	}
	return execRows(ctx, tx, addRun, successors)
}

func recovered(ctx context.Context, tx *sql.Tx, runs []uuid.UUID) ([]runRow, error) {
	encoded, err := encode(runs)
	if err != nil {
		return nil, err
	}
	var ids []uuid.UUID
	err = each(ctx, tx, recoveredRuns, []any{encoded}, func(rows *sql.Rows) error {
		var id uuid.UUID
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	})
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	return loadRuns(ctx, tx, ids)
}
