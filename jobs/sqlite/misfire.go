package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

const (
	readCursors = `
SELECT j.name, j.checked_until, q.value->>'until'
FROM json_each(?1) q CROSS JOIN holdfast_jobs j ON j.name = q.value->>'name'
WHERE j.checked_until < q.value->>'until' ORDER BY j.name`

	startedDues = `
SELECT due FROM holdfast_runs WHERE job = ?1 AND due > ?2 AND due <= ?3 AND recovery = 0 AND key = '' ORDER BY due`

	moveCursor = `UPDATE holdfast_jobs SET checked_until = ?2 WHERE name = ?1 AND checked_until < ?2`
)

type untilRow struct {
	Name  string `json:"name"`
	Until int64  `json:"until"`
}

type storedCursor struct {
	job   string
	since int64
	until int64
}

// CheckMisfires looks for dues that nobody started. find is called outside
// any transaction, so that however long it takes it holds nothing up: what is
// started meanwhile is kept, and only this call moves cursors.
func (s *Store) CheckMisfires(ctx context.Context, until map[string]time.Time, find func(string, jobs.Cursor) []jobs.Misfired) (bool, error) {
	if err := s.exclusively("misfire check"); err != nil {
		return false, err
	}
	if !s.checking.TryLock() {
		return false, nil
	}
	defer s.checking.Unlock()
	cursors, err := s.cursorsBehind(ctx, until)
	if err != nil {
		return false, wrap("misfire check", err)
	}
	var misfired []jobs.Misfired
	for _, c := range cursors {
		started, err := s.startedDues(ctx, c)
		if err != nil {
			return false, wrap("misfire check", err)
		}
		misfired = append(misfired, find(c.job, jobs.Cursor{CheckedUntil: fromMicros(c.since), Started: started})...)
	}
	if len(cursors) == 0 {
		return true, nil
	}
	err = s.write(ctx, "misfire check", func(tx *sql.Tx) error { return saveMisfires(ctx, tx, misfired, cursors) })
	return err == nil, err
}

func (s *Store) cursorsBehind(ctx context.Context, until map[string]time.Time) ([]storedCursor, error) {
	asked := make([]untilRow, 0, len(until))
	for name, at := range until {
		asked = append(asked, untilRow{name, micros(at)})
	}
	encoded, err := encode(asked)
	if err != nil {
		return nil, err
	}
	var cursors []storedCursor
	err = each(ctx, s.readers, readCursors, []any{encoded}, func(rows *sql.Rows) error {
		var c storedCursor
		err := rows.Scan(&c.job, &c.since, &c.until)
		cursors = append(cursors, c)
		return err
	})
	return cursors, err
}

func (s *Store) startedDues(ctx context.Context, c storedCursor) ([]time.Time, error) {
	var dues []time.Time
	err := each(ctx, s.readers, startedDues, []any{c.job, c.since, c.until}, func(rows *sql.Rows) error {
		var due int64
		err := rows.Scan(&due)
		dues = append(dues, fromMicros(due))
		return err
	})
	return dues, err
}

func saveMisfires(ctx context.Context, tx *sql.Tx, misfired []jobs.Misfired, cursors []storedCursor) error {
	now := micros(time.Now())
	runs := make([]runRow, len(misfired))
	for i, m := range misfired {
		run := newRun(m.Run, m.Firing, now)
		run.State, run.Reason, run.Detail = m.State, m.Reason, jobs.PlainText(m.Detail)
		if m.State == jobs.Waiting {
			run.Since = &now
		} else {
			run.Finished = &now
		}
		runs[i] = run
	}
	if err := execRows(ctx, tx, addRun, runs); err != nil {
		return err
	}
	for _, c := range cursors {
		if _, err := tx.ExecContext(ctx, moveCursor, c.job, c.until); err != nil {
			return err
		}
	}
	return nil
}
