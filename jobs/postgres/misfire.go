package postgres

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
)

const (
	// One replica at a time; a key of the cluster's own, since several
	// clusters never share a schema but may share a database's lock space.
	tryMisfires = `
SELECT pg_try_advisory_xact_lock(hashtextextended('holdfast misfires ' || $1, 0)),
    concat(set_config('idle_in_transaction_session_timeout', '30s', true), set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true))`

	readCursors = `
SELECT j.name, j.checked_until FROM holdfast.jobs j JOIN unnest($1::text[], $2::timestamptz[]) AS u (name, until)
    ON j.name = u.name COLLATE "C" WHERE j.checked_until < u.until ORDER BY j.name`

	startedDues = `
SELECT u.name, r.due FROM unnest($1::text[], $2::timestamptz[], $3::timestamptz[]) AS u (name, since, until)
CROSS JOIN LATERAL (
    SELECT r.due FROM holdfast.runs r
    WHERE r.job = u.name COLLATE "C" AND r.key = '' AND r.due > u.since AND r.due <= u.until AND r.recovery = 0 OFFSET 0) r
ORDER BY u.name COLLATE "C", r.due`

	insertMisfires = `
WITH new AS (
    INSERT INTO holdfast.runs (id, job, due, state, created_at, finished_at, reason, detail)
    SELECT m.run, m.job, m.due, m.state, t, CASE WHEN m.state <> 'waiting' THEN t END, m.reason, m.detail
    FROM unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::text[], $5::text[], $6::text[]) AS m (run, job, due, state, reason, detail),
        clock_timestamp() t
    ORDER BY m.job COLLATE "C", m.due
    ON CONFLICT DO NOTHING RETURNING id, state, created_at
)
INSERT INTO holdfast.waits (run, since) SELECT id, created_at FROM new WHERE state = 'waiting'`

	moveCursors = `
UPDATE holdfast.jobs j SET checked_until = u.until
FROM unnest($1::text[], $2::timestamptz[]) AS u (name, until)
WHERE j.name = u.name COLLATE "C" AND j.checked_until < u.until`
)

// CheckMisfires looks for dues that nobody started.
func (s *Store) CheckMisfires(ctx context.Context, until map[string]time.Time, find func(string, jobs.Cursor) []jobs.Misfired) (bool, error) {
	checked := false
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var setting string
		if err := tx.QueryRow(ctx, tryMisfires, s.cluster.String()).Scan(&checked, &setting); err != nil || !checked {
			return err
		}
		cursors, err := s.cursors(ctx, tx, until)
		if err != nil || len(cursors) == 0 {
			return err
		}
		var misfired []jobs.Misfired
		for _, name := range slices.Sorted(maps.Keys(cursors)) {
			misfired = append(misfired, find(name, *cursors[name])...)
		}
		return tx.SendBatch(ctx, s.misfireBatch(misfired, cursors, until)).Close()
	})
	return checked, wrap("misfire check", err)
}

// cursors returns the cursors that are behind, with the dues that have runs.
func (s *Store) cursors(ctx context.Context, tx pgx.Tx, until map[string]time.Time) (map[string]*jobs.Cursor, error) {
	names := slices.Sorted(maps.Keys(until))
	rows, err := tx.Query(ctx, readCursors, names, timesOf(until, names))
	if err != nil {
		return nil, err
	}
	cursors := map[string]*jobs.Cursor{}
	var name string
	var at time.Time
	if _, err := pgx.ForEachRow(rows, []any{&name, &at}, func() error {
		cursors[name] = &jobs.Cursor{CheckedUntil: at.UTC()}
		return nil
	}); err != nil {
		return nil, err
	}
	behind := slices.Sorted(maps.Keys(cursors))
	since := make([]time.Time, len(behind))
	for i, name := range behind {
		since[i] = cursors[name].CheckedUntil
	}
	rows, err = tx.Query(ctx, startedDues, behind, since, timesOf(until, behind))
	if err != nil {
		return nil, err
	}
	_, err = pgx.ForEachRow(rows, []any{&name, &at}, func() error {
		cursors[name].Started = append(cursors[name].Started, at.UTC())
		return nil
	})
	return cursors, err
}

func timesOf(times map[string]time.Time, names []string) []time.Time {
	ordered := make([]time.Time, len(names))
	for i, name := range names {
		ordered[i] = times[name]
	}
	return ordered
}

// misfireBatch writes in one round trip, so that a pause of this replica
// between two statements holds no row that a start wants.
func (s *Store) misfireBatch(misfired []jobs.Misfired, cursors map[string]*jobs.Cursor, until map[string]time.Time) *pgx.Batch {
	slices.SortFunc(misfired, func(a, b jobs.Misfired) int {
		return cmp.Or(strings.Compare(a.Firing.Job, b.Firing.Job), a.Firing.Due.Compare(b.Firing.Due))
	})
	b := &pgx.Batch{}
	b.Queue("SELECT set_config('lock_timeout', $1, true)", s.lockTimeout)
	for chunk := range slices.Chunk(misfired, jobs.MaxBatch) {
		n := len(chunk)
		ids, names, dues := make([]rawID, n), make([]string, n), make([]time.Time, n)
		states, reasons, details := make([]string, n), make([]string, n), make([]string, n)
		for i, m := range chunk {
			ids[i], names[i], dues[i] = m.Run, m.Firing.Job, m.Firing.Due
			states[i], reasons[i], details[i] = string(m.State), string(m.Reason), m.Detail
		}
		b.Queue(insertMisfires, ids, names, dues, states, reasons, details)
	}
	moved := slices.Sorted(maps.Keys(cursors))
	b.Queue(moveCursors, moved, timesOf(until, moved))
	return b
}
