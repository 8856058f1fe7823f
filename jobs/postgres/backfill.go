package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	backfillColumns = ` b.id, b.job, b.from_at, b.to_at, b.parallel, b.state, b.detail,
    b.created_at, b.created_by, b.reason, b.ended_at, b.handled_until, b.times, b.left_out,
    b.runs, b.succeeded, b.unsuccessful`

	selectBackfills = `SELECT` + backfillColumns + ` FROM holdfast.backfills b`

	activeBackfill = selectBackfills + ` WHERE b.job = $1 AND b.state = 'active'`

	scheduleKey = `d.zone || ' ' || coalesce(nullif(d.fingerprint, ''), d.schedule)`

	// backfilledJob reads what a request must fit.
	backfilledJob = `
SELECT ` + scheduleKey + `, d.may_overlap, clock_timestamp() FROM holdfast.jobs j
    JOIN holdfast.definitions d ON d.job = j.name AND d.version = j.version WHERE j.name = $1`

	addBackfill = `
INSERT INTO holdfast.backfills AS b (id, job, from_at, to_at, parallel, schedule, state, created_at,
    created_by, reason, handled_until, times)
VALUES ($1, $2, $3, $4, $5, $6, 'active', $7, $8, $9, $10, $11)
ON CONFLICT (job) WHERE state = 'active' DO NOTHING`

	// lockBackfill comes before all other locks of the transaction, so that replicas advance a
	// backfill one after the other, and each sees what the one before has done.
	lockBackfill = selectBackfills + ` WHERE b.id = $1 FOR UPDATE`

	// lastState is the state of the last run of a scheduled time: a recovery counts instead of the
	// lost run. NULL: it was deleted from the history.
	lastState = `(SELECT r.state FROM holdfast.runs r
        WHERE r.job = b.job AND r.key = u.key AND r.key <> '' AND r.key_actor = ''
        ORDER BY r.recovery DESC LIMIT 1)`

	hasEnded = `coalesce(` + lastState + `, 'lost') NOT IN ('waiting', 'running')`

	openBackfills = `
SELECT` + backfillColumns + `, (SELECT count(*) FROM holdfast.backfill_runs u
    WHERE u.backfill = b.id AND ` + hasEnded + `)
FROM holdfast.backfills b WHERE b.id = ANY(ARRAY(
    SELECT o.id FROM holdfast.backfills o WHERE o.state = 'active'
    UNION SELECT u.backfill FROM holdfast.backfill_runs u))
ORDER BY b.created_at, b.id`

	countEnded = `
WITH ended AS MATERIALIZED (
    SELECT u.key, coalesce(` + lastState + ` = 'succeeded', false) AS succeeded
    FROM holdfast.backfills b JOIN holdfast.backfill_runs u ON u.backfill = b.id
    WHERE b.id = $1 AND ` + hasEnded + `
), gone AS (
    DELETE FROM holdfast.backfill_runs WHERE backfill = $1
        AND key = ANY(ARRAY(SELECT key FROM ended))
)
UPDATE holdfast.backfills b SET succeeded = b.succeeded + e.succeeded,
    unsuccessful = b.unsuccessful + e.unsuccessful
FROM (SELECT count(*) FILTER (WHERE succeeded) AS succeeded,
    count(*) FILTER (WHERE NOT succeeded) AS unsuccessful FROM ended) e
WHERE b.id = $1 AND e.succeeded + e.unsuccessful > 0`

	stopBackfill = `
WITH stop AS (
    SELECT CASE WHEN j.version < 0 THEN '` + storage.BackfillJobRemoved + `'
        WHEN ` + scheduleKey + ` <> b.schedule THEN '` + storage.BackfillScheduleChanged + `'
        WHEN ` + wasAbsent + ` THEN '` + storage.JobGoneDetail + `' END AS detail
    FROM (SELECT b.job, b.schedule, b.state FROM holdfast.backfills b WHERE b.id = $2 OFFSET 0) b
    CROSS JOIN LATERAL (SELECT j.* FROM holdfast.jobs j WHERE j.name = b.job OFFSET 0) j
    CROSS JOIN LATERAL (SELECT d.* FROM holdfast.definitions d
        WHERE d.job = j.name AND d.version = abs(j.version) OFFSET 0) d
    WHERE b.state = 'active'
)
UPDATE holdfast.backfills b SET state = 'stopped', ended_at = clock_timestamp(), detail = s.detail
FROM stop s WHERE b.id = $2 AND s.detail IS NOT NULL`

	// takenBy is whether the run r keeps a backfill from adding another one.
	takenBy = `r.state IN ('waiting', 'running', 'succeeded') AND coalesce(r.params, '{}') = '{}'`

	// addBackfillRuns handles the times up to the first one that needs a run and cannot have one
	// now. It writes nothing if there is none before, because replicas call it every second.
	addBackfillRuns = `
WITH b AS MATERIALIZED (
    SELECT b.id, b.job, b.to_at, b.created_by, b.reason, j.checked_until,
        b.parallel - (SELECT count(*) FROM holdfast.backfill_runs u
            WHERE u.backfill = b.id) AS room
    FROM (SELECT * FROM holdfast.backfills b WHERE b.id = $1 OFFSET 0) b
    CROSS JOIN LATERAL (SELECT j.version, j.checked_until FROM holdfast.jobs j
        WHERE j.name = b.job OFFSET 0) j
    CROSS JOIN LATERAL (SELECT d.job_group FROM holdfast.definitions d
        WHERE d.job = b.job AND d.version = j.version OFFSET 0) d
    WHERE b.state = 'active' AND b.handled_until = $2 AND j.version = $3 AND (
        SELECT true FROM holdfast.pauses p
        WHERE p.resumed_at IS NULL AND p.kind = ANY('{all,group,job}') AND (p.kind = 'all'
            OR p.kind = 'job' AND p.name = b.job OR p.kind = 'group' AND p.name = d.job_group)
        LIMIT 1) IS NULL
), times AS MATERIALIZED (
    SELECT t.*, b.room,
        (SELECT true FROM holdfast.runs r WHERE r.job = b.job
            AND r.scheduled_at = t.scheduled_at AND r.key = '' AND ` + takenBy + ` LIMIT 1) IS TRUE
        OR (SELECT true FROM holdfast.runs r WHERE r.job = b.job
            AND r.scheduled_at = t.scheduled_at AND r.` + byScheduledTime + ` AND r.key <> ''
            AND ` + takenBy + ` LIMIT 1) IS TRUE AS taken,
        t.scheduled_at <= b.checked_until OR (SELECT true FROM holdfast.runs r
            WHERE r.job = b.job AND r.scheduled_at = t.scheduled_at AND r.key = ''
            LIMIT 1) IS TRUE AS decided
    FROM b CROSS JOIN unnest($4::timestamptz[], $5::uuid[], $6::text[])
        WITH ORDINALITY AS t (scheduled_at, run, key, n)
), counted AS (
    SELECT t.*, count(*) FILTER (WHERE NOT t.taken) OVER (ORDER BY t.n) AS nth FROM times t
), handled AS MATERIALIZED (
    SELECT c.* FROM counted c WHERE c.n < coalesce((SELECT min(s.n) FROM counted s
        WHERE NOT s.taken AND (NOT s.decided OR s.nth > s.room)), c.n + 1)
), new AS (
    INSERT INTO holdfast.runs (id, job, scheduled_at, key, state, created_at, reason, detail,
        backfill)
    SELECT h.run, b.job, h.scheduled_at, h.key, 'waiting', clock_timestamp(), 'backfill', $8::text,
        b.id
    FROM handled h CROSS JOIN b WHERE NOT h.taken ORDER BY h.n
    RETURNING id, key, created_at
), new_waits AS (
    INSERT INTO holdfast.waits (run, since) SELECT id, created_at FROM new
), unfinished AS (
    INSERT INTO holdfast.backfill_runs (backfill, key) SELECT $1, key FROM new
)
UPDATE holdfast.backfills o SET left_out = o.left_out + c.taken, runs = o.runs + c.added,
    handled_until = CASE WHEN $7::boolean AND c.taken + c.added = cardinality($4::timestamptz[])
        THEN o.to_at ELSE coalesce(c.until, o.handled_until) END
FROM b CROSS JOIN (SELECT count(*) FILTER (WHERE taken) AS taken,
    count(*) FILTER (WHERE NOT taken) AS added, max(scheduled_at) AS until FROM handled) c
WHERE o.id = $1 AND (c.taken + c.added > 0
    OR $7::boolean AND cardinality($4::timestamptz[]) = 0 AND o.handled_until < o.to_at)`

	completeBackfill = `
WITH done AS MATERIALIZED (
    SELECT b.state FROM holdfast.backfills b WHERE b.id = $1 AND b.handled_until >= b.to_at
        AND (SELECT true FROM holdfast.backfill_runs u WHERE u.backfill = $1 LIMIT 1) IS NULL
)
UPDATE holdfast.backfills b SET state = 'completed', ended_at = clock_timestamp()
FROM done WHERE b.id = $1 AND done.state = 'active'`

	endBackfill = `
UPDATE holdfast.backfills b SET state = 'cancelled', ended_at = clock_timestamp(), detail = $2
WHERE b.id = $1 RETURNING` + backfillColumns

	waitingOfBackfill = `
SELECT r.id FROM holdfast.backfills b JOIN holdfast.backfill_runs u ON u.backfill = b.id
CROSS JOIN LATERAL (SELECT r.id, r.state FROM holdfast.runs r
    WHERE r.job = b.job AND r.key = u.key AND r.key <> '' AND r.key_actor = ''
    ORDER BY r.recovery DESC LIMIT 1) r
WHERE b.id = $1 AND r.state = 'waiting'`

	takenTimes = `
SELECT t.* FROM (
    (SELECT r.id, r.scheduled_at, r.state, r.reason, r.started_at, r.finished_at
        FROM holdfast.runs r WHERE r.job = $1 AND r.key = ''
        AND r.scheduled_at BETWEEN $2 AND $3 AND ` + takenBy + ` ORDER BY r.scheduled_at LIMIT $4)
    UNION ALL
    (SELECT r.id, r.scheduled_at, r.state, r.reason, r.started_at, r.finished_at
        FROM holdfast.runs r WHERE r.job = $1 AND r.key <> '' AND r.` + byScheduledTime + `
        AND r.scheduled_at BETWEEN $2 AND $3 AND ` + takenBy + ` ORDER BY r.scheduled_at LIMIT $4)
) t ORDER BY t.scheduled_at, t.id LIMIT $4`

	pruneBackfills = `
DELETE FROM holdfast.backfills b WHERE b.ended_at < now() - $1::interval
    AND NOT EXISTS (SELECT FROM holdfast.backfill_runs u WHERE u.backfill = b.id)`
)

// backfillTries is how often the addition of a backfill is tried if the active one, which prevents
// it, ends at that moment.
const backfillTries = 3

// AddBackfill implements storage.Actions.
func (s *Store) AddBackfill(ctx context.Context, a storage.Action,
	r storage.BackfillRequest) (storage.Backfill, error) {
	var added storage.Backfill
	err := s.action(ctx, r.Asking(a), "backfill", "job "+r.Job, &added,
		func(ctx context.Context, d *actionTx) (err error) {
			added, err = insertBackfill(ctx, d, a, r)
			d.detail = added.Audited()
			return err
		})
	return added, err
}

func insertBackfill(ctx context.Context, d *actionTx, a storage.Action,
	r storage.BackfillRequest) (storage.Backfill, error) {
	var active string
	var mayOverlap bool
	var now time.Time
	err := d.QueryRow(ctx, backfilledJob, r.Job).Scan(&active, &mayOverlap, &now)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("active definition of job %s: %w", r.Job, storage.ErrNotFound)
	}
	if err == nil {
		err = r.Fits(active, mayOverlap, now)
	}
	if err != nil {
		return storage.Backfill{}, err
	}
	b := r.New(a, now.UTC())
	for range backfillTries {
		tag, err := d.Exec(ctx, addBackfill, b.ID, b.Job, b.From, b.To, b.Parallel, r.ScheduleKey,
			b.CreatedAt, b.CreatedBy, b.Reason, b.HandledUntil, b.Times)
		if err != nil || tag.RowsAffected() > 0 {
			return b, err
		}
		rows, err := d.Query(ctx, activeBackfill, r.Job)
		if err != nil {
			return storage.Backfill{}, err
		}
		other, err := oneBackfill("active backfill of job "+r.Job, rows)
		if err == nil {
			err = other.Another()
		}
		if !errors.Is(err, storage.ErrNotFound) {
			return storage.Backfill{}, err
		}
		// The other backfill ended between the two statements, so there is room for b.
	}
	return storage.Backfill{}, r.OthersEnded()
}

// CancelBackfill implements storage.Actions.
func (s *Store) CancelBackfill(ctx context.Context, a storage.Action,
	id uuid.UUID) (storage.Backfill, error) {
	var ended storage.Backfill
	err := s.action(ctx, a, "cancel_backfill", "backfill "+id.String(), &ended,
		func(ctx context.Context, d *actionTx) error {
			rows, err := d.Query(ctx, lockBackfill, id)
			if err != nil {
				return err
			}
			b, err := oneBackfill("backfill "+id.String(), rows)
			if err == nil && b.State != storage.BackfillActive {
				err = b.HasEnded()
			}
			if err != nil {
				return err
			}
			cancelled, err := cancelRunsOf(ctx, d, id, a.By("its backfill was cancelled"))
			if err != nil {
				return err
			}
			d.detail = map[string]any{"job": b.Job, "cancelled_runs": cancelled}
			if rows, err = d.Query(ctx, endBackfill, id, a.By("cancelled")); err != nil {
				return err
			}
			ended, err = oneBackfill("backfill "+id.String(), rows)
			return err
		})
	return ended, err
}

// cancelRunsOf ends the waiting runs of the backfill, and returns how many there were.
func cancelRunsOf(ctx context.Context, tx pgx.Tx, backfill uuid.UUID,
	detail string) (int64, error) {
	rows, err := tx.Query(ctx, waitingOfBackfill, backfill)
	if err != nil {
		return 0, err
	}
	runs, err := pgx.CollectRows(rows, pgx.RowTo[rawID])
	if err != nil || len(runs) == 0 {
		return 0, err
	}
	if _, err := tx.Exec(ctx, lockWaits, runs); err != nil {
		return 0, err
	}
	tag, err := tx.Exec(ctx, cancelWaiting, runs, detail)
	return tag.RowsAffected(), err
}

// AdvanceBackfill implements storage.Backfills.
func (s *Store) AdvanceBackfill(ctx context.Context,
	step storage.BackfillStep) (storage.Backfill, error) {
	rows, err := s.pool.Query(ctx, selectBackfills+` WHERE b.id = $1`, step.Backfill)
	if err != nil {
		return storage.Backfill{}, wrap("advance backfill", err)
	}
	before, err := oneBackfill("backfill "+step.Backfill.String(), rows)
	if err != nil {
		return before, wrap("advance backfill", err)
	}
	n := len(step.Times)
	times, runs, keys := make([]time.Time, n), make([]rawID, n), make([]string, n)
	for i, t := range step.Times {
		times[i], runs[i], keys[i] = t.ScheduledAt, t.Run, before.Key(t.ScheduledAt)
	}
	var after storage.Backfill
	err = s.pipeline(ctx, "advance backfill", func(b *pgx.Batch) {
		b.Queue(lockBackfill, step.Backfill)
		b.Queue(countEnded, step.Backfill)
		b.Queue(stopBackfill, storage.MaxAbsence, step.Backfill)
		if step.Version > 0 && (n > 0 || step.Last) {
			b.Queue(addBackfillRuns, step.Backfill, step.After, step.Version, times, runs, keys,
				step.Last, before.By())
		}
		b.Queue(completeBackfill, step.Backfill)
		b.Queue(selectBackfills+` WHERE b.id = $1`, step.Backfill).
			Query(func(rows pgx.Rows) (err error) {
				after, err = oneBackfill("backfill "+step.Backfill.String(), rows)
				return err
			})
	})
	return after, err
}

// OpenBackfills implements storage.Backfills.
func (s *Store) OpenBackfills(ctx context.Context) ([]storage.OpenBackfill, error) {
	var open []storage.OpenBackfill
	err := s.pipeline(ctx, "list open backfills", func(b *pgx.Batch) {
		b.Queue(openBackfills).Query(func(rows pgx.Rows) (err error) {
			open, err = pgx.CollectRows(rows,
				func(row pgx.CollectableRow) (o storage.OpenBackfill, err error) {
					o.Backfill, err = scanBackfill(row, &o.Ended)
					return o, err
				})
			return err
		})
	})
	return open, err
}

// Backfills implements storage.BackfillHistory.
func (s *Store) Backfills(ctx context.Context,
	f storage.BackfillFilter) ([]storage.Backfill, error) {
	query, args := backfillsQuery(f)
	rows, err := s.views.Query(ctx, query,
		append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
	if err != nil {
		return nil, wrap("list backfills", err)
	}
	backfills, err := pgx.CollectRows(rows, backfillRow)
	if backwards(f.Before != nil, f.After != nil) {
		slices.Reverse(backfills)
	}
	return backfills, wrap("list backfills", err)
}

// backfillsQuery returns the query of a page of backfills.
func backfillsQuery(f storage.BackfillFilter) (string, []any) {
	query, args := selectBackfills+" WHERE true", []any{}
	arg := func(v any) string {
		args = append(args, v)
		return "$" + strconv.Itoa(len(args))
	}
	if f.Job != "" {
		query += " AND b.job = " + arg(f.Job)
	}
	if f.State != "" {
		query += " AND b.state = " + arg(string(f.State))
	}
	if f.Ended {
		query += " AND b.state <> 'active'"
	}
	if f.Before != nil {
		query += " AND (b.created_at, b.id) < (" + arg(f.Before.CreatedAt) + ", " +
			arg(f.Before.ID) + ")"
	}
	if f.After != nil {
		query += " AND (b.created_at, b.id) > (" + arg(f.After.CreatedAt) + ", " +
			arg(f.After.ID) + ")"
	}
	order := " ORDER BY b.created_at DESC, b.id DESC"
	if backwards(f.Before != nil, f.After != nil) {
		order = " ORDER BY b.created_at, b.id"
	}
	return query + order + fmt.Sprintf(" LIMIT %d", storage.PageSize(f.Limit)), args
}

// Backfill implements storage.BackfillHistory.
func (s *Store) Backfill(ctx context.Context, id uuid.UUID) (storage.Backfill, error) {
	rows, err := s.views.Query(ctx, selectBackfills+` WHERE b.id = $1`, id)
	if err != nil {
		return storage.Backfill{}, wrap("backfill", err)
	}
	b, err := oneBackfill("backfill "+id.String(), rows)
	return b, wrap("backfill", err)
}

// BackfillTaken implements storage.BackfillHistory.
func (s *Store) BackfillTaken(ctx context.Context, job string, from,
	to time.Time) ([]storage.Outcome, error) {
	rows, err := s.views.Query(ctx, takenTimes, job, from, to, 2*storage.MaxBackfillTimes)
	if err != nil {
		return nil, wrap("list runs of a range", err)
	}
	taken, err := pgx.CollectRows(rows,
		func(row pgx.CollectableRow) (o storage.Outcome, err error) {
			err = row.Scan(&o.Run, &o.ScheduledAt, &o.State, &o.Reason, &o.StartedAt,
				&o.FinishedAt)
			o.ScheduledAt, o.StartedAt, o.FinishedAt = o.ScheduledAt.UTC(), utc(o.StartedAt),
				utc(o.FinishedAt)
			return o, err
		})
	return taken, wrap("list runs of a range", err)
}

func oneBackfill(what string, rows pgx.Rows) (storage.Backfill, error) {
	b, err := pgx.CollectExactlyOneRow(rows, backfillRow)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("%s: %w", what, storage.ErrNotFound)
	}
	return b, err
}

func backfillRow(row pgx.CollectableRow) (storage.Backfill, error) { return scanBackfill(row) }

// scanBackfill reads a row of backfillColumns, and what follows them into more.
func scanBackfill(row pgx.CollectableRow, more ...any) (storage.Backfill, error) {
	var b storage.Backfill
	err := row.Scan(append([]any{&b.ID, &b.Job, &b.From, &b.To, &b.Parallel, &b.State, &b.Detail,
		&b.CreatedAt, &b.CreatedBy, &b.Reason, &b.EndedAt, &b.HandledUntil, &b.Times, &b.LeftOut,
		&b.Runs, &b.Succeeded, &b.Unsuccessful}, more...)...)
	b.From, b.To, b.CreatedAt, b.HandledUntil, b.EndedAt = b.From.UTC(), b.To.UTC(),
		b.CreatedAt.UTC(), b.HandledUntil.UTC(), utc(b.EndedAt)
	return b, err
}
