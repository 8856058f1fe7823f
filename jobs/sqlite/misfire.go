package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

const (
	startedDues = `
SELECT due FROM holdfast_runs WHERE job = ?1 AND due > ?2 AND due <= ?3 AND recovery = 0 AND key = '' ORDER BY due`

	cursorInForce = `SELECT checked_until FROM holdfast_jobs WHERE name = ?1 AND version = ?2`

	moveCursor = `UPDATE holdfast_jobs SET checked_until = max(checked_until, ?2) WHERE name = ?1 RETURNING checked_until`
)

// CheckMisfires looks for dues that nobody started. find is called outside
// any transaction, so that however long it takes it holds nothing up: what is
// started meanwhile is kept, and only this call moves cursors while the
// definitions stay in force.
func (s *Store) CheckMisfires(ctx context.Context, checks []jobs.MisfireCheck, find func(string, jobs.Cursor) []jobs.Misfired) (map[string]time.Time, error) {
	if err := s.exclusively("misfire check"); err != nil {
		return nil, err
	}
	if !s.checking.TryLock() {
		return nil, nil
	}
	defer s.checking.Unlock()
	checks = slices.SortedFunc(slices.Values(checks), func(a, b jobs.MisfireCheck) int { return strings.Compare(a.Job, b.Job) })
	cursors := make(map[string]time.Time, len(checks))
	found := make(map[string][]jobs.Misfired, len(checks))
	var behind []jobs.MisfireCheck
	for _, c := range checks {
		cursor, inForce, err := cursorOf(ctx, s.readers, c)
		if err != nil {
			return nil, wrap("misfire check", err)
		}
		if inForce {
			cursors[c.Job] = cursor
		}
		if !inForce || !cursor.Before(c.Due) {
			continue
		}
		started, err := s.startedDues(ctx, c.Job, cursor, c.Until)
		if err != nil {
			return nil, wrap("misfire check", err)
		}
		behind = append(behind, c)
		found[c.Job] = find(c.Job, jobs.Cursor{CheckedUntil: cursor, Started: started})
	}
	if len(behind) == 0 {
		return cursors, nil
	}
	err := s.write(ctx, "misfire check", func(tx *sql.Tx) error { return saveMisfires(ctx, tx, behind, found, cursors) })
	if err != nil {
		return nil, err
	}
	return cursors, nil
}

// cursorOf returns the job's cursor, if the check's definition is in force.
func cursorOf(ctx context.Context, from queryer, c jobs.MisfireCheck) (cursor time.Time, inForce bool, err error) {
	var at int64
	err = from.QueryRowContext(ctx, cursorInForce, c.Job, c.Version).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return cursor, false, nil
	}
	return fromMicros(at), err == nil, err
}

func (s *Store) startedDues(ctx context.Context, job string, since, until time.Time) ([]time.Time, error) {
	var dues []time.Time
	err := each(ctx, s.readers, startedDues, []any{job, micros(since), micros(until)}, func(rows *sql.Rows) error {
		var due int64
		err := rows.Scan(&due)
		dues = append(dues, fromMicros(due))
		return err
	})
	return dues, err
}

// saveMisfires writes what was found, and brings the cursors up to date. It
// leaves out jobs of which another definition has come into force.
func saveMisfires(ctx context.Context, tx *sql.Tx, checks []jobs.MisfireCheck, found map[string][]jobs.Misfired, cursors map[string]time.Time) error {
	now := micros(time.Now())
	var runs []runRow
	for _, c := range checks {
		delete(cursors, c.Job)
		_, inForce, err := cursorOf(ctx, tx, c)
		if err != nil {
			return err
		}
		if !inForce {
			continue
		}
		var at int64
		if err := tx.QueryRowContext(ctx, moveCursor, c.Job, micros(c.Until)).Scan(&at); err != nil {
			return err
		}
		cursors[c.Job] = fromMicros(at)
		for _, m := range found[c.Job] {
			runs = append(runs, misfiredRun(m, now))
		}
	}
	return execRows(ctx, tx, addRun, runs)
}

func misfiredRun(m jobs.Misfired, now int64) runRow {
	run := newRun(m.Run, m.Firing, now)
	run.State, run.Reason, run.Detail = m.State, m.Reason, jobs.PlainText(m.Detail)
	if m.State == jobs.Waiting {
		run.Since = &now
	} else {
		run.Finished = &now
	}
	return run
}
