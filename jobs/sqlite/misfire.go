package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	startedFirings = `
SELECT scheduled_at FROM holdfast_runs WHERE job = ?1 AND scheduled_at > ?2 AND scheduled_at <= ?3
    AND recovery = 0 AND key = '' ORDER BY scheduled_at`

	pausesSince = `
SELECT` + pauseColumns + ` FROM holdfast_pauses
WHERE resumed_at IS NULL OR resumed_at > ?1 ORDER BY paused_at, id`

	renewedSpans = `SELECT started_at, renewed_at FROM holdfast_sessions`

	awaySpan = `SELECT left_at, back_at FROM holdfast_jobs WHERE name = ?1 AND back_at > left_at`

	waitingFiring = `
SELECT max(scheduled_at) FROM holdfast_runs
    WHERE state = 'waiting' AND +job = ?1 AND key = '' AND attempt = 0`

	cursorInForce = `SELECT checked_until FROM holdfast_jobs WHERE name = ?1 AND version = ?2`

	moveCursor = `UPDATE holdfast_jobs SET checked_until = max(checked_until, ?2) WHERE name = ?1
		RETURNING checked_until`
)

// CheckMisfires implements storage.Upkeep.
func (s *Store) CheckMisfires(ctx context.Context, checks []storage.MisfireCheck,
	find func(string, storage.Cursor) []storage.Misfired) (map[string]time.Time, error) {
	if err := s.exclusively("misfire check"); err != nil {
		return nil, err
	}
	if !s.checking.TryLock() {
		return nil, nil
	}
	defer s.checking.Unlock()
	checks = slices.SortedFunc(slices.Values(checks), func(a, b storage.MisfireCheck) int {
		return strings.Compare(a.Job, b.Job)
	})
	// find is called outside any transaction, so that it blocks nothing. If a run of a scheduled
	// time starts meanwhile, the run stays, and the record of this time is dropped. While the
	// definition of a job stays active, only CheckMisfires moves its cursor.
	cursors := make(map[string]time.Time, len(checks))
	found := make(map[string][]storage.Misfired, len(checks))
	var behind []storage.MisfireCheck
	for _, c := range checks {
		cursor, activeDefinitions, err := cursorOf(ctx, s.readers, c)
		if err != nil {
			return nil, wrap("misfire check", err)
		}
		if activeDefinitions {
			cursors[c.Job] = cursor
		}
	}
	given, err := s.misfireCursors(ctx, checks, cursors)
	if err != nil {
		return nil, wrap("misfire check", err)
	}
	for _, c := range checks {
		cursor, activeDefinitions := given[c.Job]
		if !activeDefinitions || cursor.Decided(c.ScheduledAt) {
			continue
		}
		c.Until = cursor.Until
		if err := s.nextScheduledTimes(ctx, c, &cursor); err != nil {
			return nil, wrap("misfire check", err)
		}
		behind = append(behind, c)
		found[c.Job] = find(c.Job, cursor)
	}
	if len(behind) == 0 {
		return cursors, nil
	}
	err = s.write(ctx, "misfire check", func(tx *sql.Tx) error {
		return saveMisfires(ctx, tx, behind, found, cursors)
	})
	if err != nil {
		return nil, err
	}
	return cursors, nil
}

// cursorOf returns the job's cursor, if the check's definition is active.
func cursorOf(ctx context.Context, from queryer,
	c storage.MisfireCheck) (cursor time.Time, activeDefinitions bool, err error) {
	var at int64
	err = from.QueryRowContext(ctx, cursorInForce, c.Job, c.Version).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return cursor, false, nil
	}
	return fromMicros(at), err == nil, err
}

// misfireCursors returns the cursors of the checks whose definitions are active, without the facts
// about single scheduled times.
func (s *Store) misfireCursors(ctx context.Context, checks []storage.MisfireCheck,
	at map[string]time.Time) (map[string]storage.Cursor, error) {
	given := make(map[string]storage.Cursor, len(at))
	if len(at) == 0 {
		return given, nil
	}
	first := slices.MinFunc(slices.Collect(maps.Values(at)), time.Time.Compare)
	pauses, err := pausesBy(ctx, s.readers, pausesSince, micros(first))
	if err != nil {
		return nil, err
	}
	up := s.sessions.spans()
	err = each(ctx, s.readers, renewedSpans, nil, func(rows *sql.Rows) error {
		var from, until int64
		err := rows.Scan(&from, &until)
		up = append(up, storage.Span{From: fromMicros(from), Until: fromMicros(until)})
		return err
	})
	for _, c := range checks {
		cursor, activeDefinitions := at[c.Job]
		if !activeDefinitions || err != nil {
			continue
		}
		var away storage.Span
		err = each(ctx, s.readers, awaySpan, []any{c.Job}, func(rows *sql.Rows) error {
			var left, back int64
			err := rows.Scan(&left, &back)
			away = storage.Span{From: fromMicros(left), Until: fromMicros(back)}
			return err
		})
		given[c.Job] = c.Cursor(cursor, time.Now(), pauses, up, away)
	}
	return given, err
}

// nextScheduledTimes fills in which scheduled times have a run or a record, and which have a
// waiting run.
func (s *Store) nextScheduledTimes(ctx context.Context, c storage.MisfireCheck,
	cursor *storage.Cursor) error {
	err := each(ctx, s.readers, startedFirings,
		[]any{c.Job, micros(cursor.CheckedUntil), micros(cursor.Last)},
		func(rows *sql.Rows) error {
			var scheduledAt int64
			err := rows.Scan(&scheduledAt)
			cursor.Started = append(cursor.Started, fromMicros(scheduledAt))
			return err
		})
	if err != nil {
		return err
	}
	var waits sql.NullInt64
	if err := s.readers.QueryRowContext(ctx, waitingFiring, c.Job).Scan(&waits); err != nil {
		return err
	}
	if scheduledAt := fromNullMicros(waits); scheduledAt != nil {
		cursor.Waits = *scheduledAt
	}
	return nil
}

// saveMisfires writes the misfires and updates the cursors. It leaves out jobs whose active
// definition has changed.
func saveMisfires(ctx context.Context, tx *sql.Tx, checks []storage.MisfireCheck,
	found map[string][]storage.Misfired, cursors map[string]time.Time) error {
	now := rules.Whole(time.Now())
	var runs []runRow
	for _, c := range checks {
		delete(cursors, c.Job)
		_, activeDefinitions, err := cursorOf(ctx, tx, c)
		if err != nil {
			return err
		}
		if !activeDefinitions {
			continue
		}
		var at int64
		if err := tx.QueryRowContext(ctx, moveCursor, c.Job, micros(c.Until)).
			Scan(&at); err != nil {
			return err
		}
		cursors[c.Job] = fromMicros(at)
		for _, m := range found[c.Job] {
			runs = append(runs, runRow{Run: rules.NewMisfired(m, now)})
		}
	}
	return execRows(ctx, tx, addRun, runs)
}
