package postgres

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// Only one replica checks at a time. The lock's key contains the cluster's id, because several
	// clusters may share a database.
	tryMisfires = `
SELECT pg_try_advisory_xact_lock(hashtextextended('holdfast misfires ' || $1, 0)),
    set_config('idle_in_transaction_session_timeout', '30s', true), clock_timestamp()`

	readCursors = `
SELECT j.name, j.checked_until FROM unnest($1::text[], $2::bigint[]) AS c (name, version)
CROSS JOIN LATERAL (
    SELECT j.name, j.checked_until FROM holdfast.jobs j
        WHERE j.name = c.name COLLATE "C" AND j.version = c.version OFFSET 0) j`

	pausesOf = `
SELECT p.* FROM unnest($1::text[], $2::text[]) AS t (kind, name)
CROSS JOIN LATERAL (
    SELECT` + pauseColumns + ` FROM holdfast.pauses p
        WHERE p.kind = t.kind AND p.name = t.name COLLATE "C"
        AND (p.resumed_at IS NULL OR p.resumed_at > $3) OFFSET 0) p
ORDER BY p.paused_at, p.id`

	// The span of a live session ends at its expiry, because the replica will send another
	// heartbeat. The span of any other session ends with its last heartbeat.
	spans = `
SELECT started_at, CASE WHEN ended_at IS NULL
    AND expires_at > clock_timestamp() THEN expires_at ELSE renewed_at END
FROM holdfast.sessions WHERE NOT locks`

	awaySpans = `SELECT name, left_at, back_at FROM holdfast.jobs
		WHERE name = ANY($1) AND back_at > left_at`

	// The key is not a condition of the subquery: while the tables are small, a plan would scan the
	// index of the scheduled runs for it.
	waitingFirings = `
SELECT r.job, max(r.scheduled_at) FROM holdfast.waits w
CROSS JOIN LATERAL (
    SELECT r.job, r.scheduled_at, r.key, r.attempt, r.state FROM holdfast.runs r
        WHERE r.id = w.run OFFSET 0) r
WHERE w.owner IS NULL AND r.job = ANY($1) AND r.key = '' AND r.attempt = 0 AND r.state = 'waiting'
    GROUP BY r.job`

	startedFirings = `
SELECT u.name, r.scheduled_at FROM unnest($1::text[], $2::timestamptz[],
    $3::timestamptz[]) AS u (name, since, last)
CROSS JOIN LATERAL (
    SELECT r.scheduled_at FROM holdfast.runs r
    WHERE r.job = u.name COLLATE "C" AND r.key = '' AND r.scheduled_at > u.since
        AND r.scheduled_at <= u.last AND r.recovery = 0 OFFSET 0) r
ORDER BY u.name COLLATE "C", r.scheduled_at`

	// The active definitions cannot change from here until the commit. The order of the names is
	// that of activateDefinitions.
	lockCursors = `SELECT FROM holdfast.jobs WHERE name = ANY($1) ORDER BY name FOR NO KEY UPDATE`

	insertMisfires = `
WITH new AS (
    INSERT INTO holdfast.runs (id, job, scheduled_at, state, created_at, finished_at, reason,
        detail)
    SELECT m.run, m.job, m.scheduled_at, m.state, t, CASE WHEN m.state <> 'waiting' THEN t END,
        m.reason, m.detail
    FROM unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::text[], $5::text[], $6::text[],
        $7::bigint[])
        AS m (run, job, scheduled_at, state, reason, detail, version), clock_timestamp() t
    WHERE (SELECT j.version FROM holdfast.jobs j WHERE j.name = m.job COLLATE "C") = m.version
    ORDER BY m.job COLLATE "C", m.scheduled_at
    ON CONFLICT DO NOTHING RETURNING id, state, created_at
)
INSERT INTO holdfast.waits (run, since) SELECT id, created_at FROM new WHERE state = 'waiting'`

	moveCursors = `
UPDATE holdfast.jobs j SET checked_until = greatest(j.checked_until, c.until)
FROM unnest($1::text[], $2::bigint[], $3::timestamptz[]) AS c (name, version, until)
WHERE j.name = ANY($1) AND j.name = c.name COLLATE "C" AND j.version = c.version
RETURNING j.name, j.checked_until`
)

// CheckMisfires implements storage.Upkeep.
func (s *Store) CheckMisfires(ctx context.Context, checks []storage.MisfireCheck,
	find func(string, storage.Cursor) []storage.Misfired) (map[string]time.Time, error) {
	checks = slices.SortedFunc(slices.Values(checks), func(a, b storage.MisfireCheck) int {
		return strings.Compare(a.Job, b.Job)
	})
	var cursors map[string]time.Time
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		alone, now, err := s.beginMisfires(ctx, tx)
		if err != nil || !alone {
			return err
		}
		if cursors, err = readTimes(ctx, tx, readCursors, namesOf(checks),
			versionsOf(checks)); err != nil {
			return err
		}
		given, err := s.misfireCursors(ctx, tx, checks, cursors, now)
		if err != nil {
			return err
		}
		checks = slices.DeleteFunc(checks, func(c storage.MisfireCheck) bool {
			cursor, activeDefinitions := given[c.Job]
			return !activeDefinitions || cursor.Decided(c.ScheduledAt)
		})
		if len(checks) == 0 {
			return nil
		}
		for i, c := range checks {
			checks[i].Until = given[c.Job].Until
		}
		// The transaction holds no row lock during find, so no registration waits for it.
		found, err := findMisfires(ctx, tx, checks, given, find)
		if err != nil {
			return err
		}
		return writeMisfires(ctx, tx, checks, found, cursors)
	})
	if err != nil {
		return nil, wrap("misfire check", err)
	}
	return cursors, nil
}

// beginMisfires reports whether no other replica is checking, and returns PostgreSQL's clock.
func (s *Store) beginMisfires(ctx context.Context,
	tx pgx.Tx) (alone bool, now time.Time, err error) {
	b := &pgx.Batch{}
	b.Queue(beginPipeline, s.lockTimeout)
	b.Queue(tryMisfires, s.cluster.String()).QueryRow(func(row pgx.Row) error {
		var setting string
		return row.Scan(&alone, &setting, &now)
	})
	err = tx.SendBatch(ctx, b).Close()
	return alone, now, err
}

// readTimes returns the rows of a query as a map from names to times.
func readTimes(ctx context.Context, tx pgx.Tx, sql string,
	args ...any) (map[string]time.Time, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return scanTimes(rows, map[string]time.Time{})
}

func scanTimes(rows pgx.Rows, times map[string]time.Time) (map[string]time.Time, error) {
	var name string
	var at time.Time
	_, err := pgx.ForEachRow(rows, []any{&name, &at}, func() error {
		times[name] = at.UTC()
		return nil
	})
	return times, err
}

// misfireCursors returns the cursors of the checks whose definitions are active, without the facts
// about single scheduled times.
func (s *Store) misfireCursors(ctx context.Context, tx pgx.Tx, checks []storage.MisfireCheck,
	at map[string]time.Time, now time.Time) (map[string]storage.Cursor, error) {
	given := make(map[string]storage.Cursor, len(checks))
	if len(at) == 0 {
		return given, nil
	}
	var kinds, names []string
	for _, target := range storage.PauseTargets(checks) {
		kinds, names = append(kinds, string(target.Kind)), append(names, target.Name)
	}
	first := slices.MinFunc(slices.Collect(maps.Values(at)), time.Time.Compare)
	var pauses []storage.Pause
	var up []storage.Span
	away := map[string]storage.Span{}
	b := &pgx.Batch{}
	b.Queue(awaySpans, namesOf(checks)).Query(func(rows pgx.Rows) error {
		var name string
		var left, back time.Time
		_, err := pgx.ForEachRow(rows, []any{&name, &left, &back}, func() error {
			away[name] = storage.Span{From: left.UTC(), Until: back.UTC()}
			return nil
		})
		return err
	})
	b.Queue(pausesOf, kinds, names, first).Query(func(rows pgx.Rows) (err error) {
		pauses, err = pgx.CollectRows(rows, scanPause)
		return err
	})
	b.Queue(spans).Query(func(rows pgx.Rows) (err error) {
		up, err = pgx.CollectRows(rows,
			func(row pgx.CollectableRow) (span storage.Span, err error) {
				err = row.Scan(&span.From, &span.Until)
				return storage.Span{From: span.From.UTC(), Until: span.Until.UTC()}, err
			})
		return err
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	for _, c := range checks {
		if cursor, activeDefinitions := at[c.Job]; activeDefinitions {
			given[c.Job] = c.Cursor(cursor, now, pauses, up, away[c.Job])
		}
	}
	return given, nil
}

// findMisfires calls find for each check with the scheduled times that have runs.
func findMisfires(ctx context.Context, tx pgx.Tx, checks []storage.MisfireCheck,
	given map[string]storage.Cursor,
	find func(string, storage.Cursor) []storage.Misfired) ([]storage.Misfired,
	error) {
	since, last := make([]time.Time, len(checks)), make([]time.Time, len(checks))
	for i, c := range checks {
		since[i], last[i] = given[c.Job].CheckedUntil, given[c.Job].Last
	}
	started, waiting := map[string][]time.Time{}, map[string]time.Time{}
	b := &pgx.Batch{}
	b.Queue(startedFirings, namesOf(checks), since, last).
		Query(func(rows pgx.Rows) error {
			var name string
			var scheduledAt time.Time
			_, err := pgx.ForEachRow(rows, []any{&name, &scheduledAt}, func() error {
				started[name] = append(started[name], scheduledAt.UTC())
				return nil
			})
			return err
		})
	b.Queue(waitingFirings, namesOf(checks)).Query(func(rows pgx.Rows) error {
		_, err := scanTimes(rows, waiting)
		return err
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	var found []storage.Misfired
	for _, c := range checks {
		cursor := given[c.Job]
		cursor.Started, cursor.Waits = started[c.Job], waiting[c.Job]
		found = append(found, find(c.Job, cursor)...)
	}
	return found, nil
}

// writeMisfires writes in one round trip, so that a pause of this replica between two statements
// holds no row lock. It updates the cursors, and drops the checks of jobs whose active definition
// has changed.
func writeMisfires(ctx context.Context, tx pgx.Tx, checks []storage.MisfireCheck,
	found []storage.Misfired, cursors map[string]time.Time) error {
	versions := make(map[string]int64, len(checks))
	for _, c := range checks {
		versions[c.Job] = c.Version
		delete(cursors, c.Job)
	}
	slices.SortFunc(found, func(a, b storage.Misfired) int {
		return cmp.Or(strings.Compare(a.Firing.Job, b.Firing.Job),
			a.Firing.ScheduledAt.Compare(b.Firing.ScheduledAt))
	})
	b := &pgx.Batch{}
	b.Queue(lockCursors, namesOf(checks))
	for chunk := range slices.Chunk(found, storage.MaxBatch) {
		b.Queue(insertMisfires, misfireColumns(chunk, versions)...)
	}
	b.Queue(moveCursors, namesOf(checks), versionsOf(checks), untilsOf(checks)).
		Query(func(rows pgx.Rows) error {
			_, err := scanTimes(rows, cursors)
			return err
		})
	return tx.SendBatch(ctx, b).Close()
}

func misfireColumns(found []storage.Misfired, versions map[string]int64) []any {
	n := len(found)
	ids, names, scheduledTimes, activeDefinitions := make([]rawID, n), make([]string, n),
		make([]time.Time, n), make([]int64, n)
	states, reasons, details := make([]string, n), make([]string, n), make([]string, n)
	for i, m := range found {
		ids[i], names[i], scheduledTimes[i], activeDefinitions[i] = m.Run, m.Firing.Job,
			m.Firing.ScheduledAt, versions[m.Firing.Job]
		states[i], reasons[i], details[i] = string(m.State), string(m.Reason), m.Detail
	}
	return []any{ids, names, scheduledTimes, states, reasons, details, activeDefinitions}
}

func namesOf(checks []storage.MisfireCheck) []string {
	names := make([]string, len(checks))
	for i, c := range checks {
		names[i] = c.Job
	}
	return names
}

func versionsOf(checks []storage.MisfireCheck) []int64 {
	versions := make([]int64, len(checks))
	for i, c := range checks {
		versions[i] = c.Version
	}
	return versions
}

func untilsOf(checks []storage.MisfireCheck) []time.Time {
	untils := make([]time.Time, len(checks))
	for i, c := range checks {
		untils[i] = c.Until
	}
	return untils
}
