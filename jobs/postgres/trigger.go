package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	// runByKey omits skipped runs, which leave their key free.
	runByKey = selectRuns + ` WHERE r.job = $1 AND r.key = $2 AND r.key <> ''
		AND r.key_actor = $3
		AND r.unsuccessful_state IS DISTINCT FROM 'skipped' ORDER BY r.recovery DESC LIMIT 1`

	// firstByKey is runByKey without recoveries, which were created later.
	firstByKey = selectRuns + ` WHERE r.job = $1 AND r.key = $2 AND r.key <> ''
		AND r.key_actor = $3 AND r.recovery = 0
		AND r.unsuccessful_state IS DISTINCT FROM 'skipped'`

	// It compares the stored form, because PostgreSQL may have written numbers in another way.
	sameParams = `SELECT clock_timestamp(),
		coalesce((SELECT r.params FROM holdfast.runs r WHERE r.id = $1), '{}')
			= coalesce($2::jsonb, '{}')`

	pauseOfJob = `SELECT` + pauseColumns + ` FROM holdfast.pauses,
    (SELECT $1::text AS job) q WHERE resumed_at IS NULL AND ` + pausesTriggers + `
ORDER BY kind DESC LIMIT 1`

	// pausesTriggers is whether a pause of that kind and name covers q.job. The group of an added
	// job that no replica has registered yet is in its spec.
	pausesTriggers = `(kind, name) IN (('all', ''), ('job', q.job), ('group', nullif(coalesce(
    (SELECT d.job_group FROM holdfast.definitions d WHERE d.job = q.job COLLATE "C"
        AND d.version = (SELECT j.version FROM holdfast.jobs j WHERE j.name = q.job COLLATE "C")),
    (SELECT s.spec ->> 'group' FROM holdfast.specs s WHERE s.job = q.job COLLATE "C")), '')))`

	// A triggered run has its position in its job from the beginning, so that no later triggered
	// run overtakes it. The position of a run for a later time counts from that time, so it blocks
	// nothing before.
	triggerRun = `
WITH new AS (
    INSERT INTO holdfast.runs (id, job, scheduled_at, key, state, created_at, reason, detail,
        params, start_by, key_actor, session, replica)
    SELECT $1, $2, begin, $3, 'waiting', t, 'triggered', $4, $5, greatest(begin, t) + $6::interval,
        $7, a.id, coalesce(a.replica, '')
        FROM date_trunc('microseconds', clock_timestamp()) t
        CROSS JOIN coalesce($8::timestamptz, t + $9::interval) begin
        LEFT JOIN LATERAL (SELECT * FROM (SELECT $10::uuid AS adopter) q
            CROSS JOIN LATERAL (` + adopterOfTrigger + `) s) a ON begin <= t
    ON CONFLICT DO NOTHING RETURNING id, job, session, greatest(scheduled_at, created_at) AS since
), place AS (
    INSERT INTO holdfast.wants (resource, since, run, mode, slots)
        SELECT 'job:' || job, since, id, 'exclusive', 0 FROM new
)
INSERT INTO holdfast.waits (run, session, since, triggered)
    SELECT id, session, since, true FROM new`

	// adopterOfTrigger returns the session q.adopter if it can adopt runs. If it ends, stops or is
	// drained meanwhile, other sessions can adopt the run.
	adopterOfTrigger = `SELECT s.id, s.replica FROM holdfast.sessions s WHERE s.id = q.adopter
    AND s.ended_at IS NULL AND s.expires_at > clock_timestamp() AND ` + adopts + ` OFFSET 0`

	// lockTriggers excludes other triggers of the job that must be refused if something blocks
	// them. The second of two concurrent triggers finds the run of the first.
	lockTriggers = `SELECT pg_advisory_xact_lock(hashtextextended('holdfast trigger ' || $1 || ' '
		|| $2, 0))`

	lockedByJobs = `
SELECT j.name, d.resources, d.may_overlap FROM holdfast.jobs j
CROSS JOIN LATERAL (SELECT d.resources, d.may_overlap FROM holdfast.definitions d
    WHERE d.job = j.name AND d.version = j.version OFFSET 0) d
WHERE j.name = ANY($1)`

	// findBlockers finds, without a lock, what would refuse waiting runs or new ones. It finds
	// nothing for a run that has a claim.
	findBlockers = asked + `, ` + roots + `
SELECT b.run, ` + refusalReason + `, ` + storedBlocker + ` FROM blocked b`
)

// Trigger implements storage.Actions.
func (s *Store) Trigger(ctx context.Context, a storage.Action,
	r storage.TriggerRequest) (storage.Triggered, error) {
	var answer storage.Triggered
	if err := r.Check(); err != nil {
		return answer, err
	}
	r.Key, a.Key = cmp.Or(r.Key, uuid.NewString()), ""
	if !r.AtOnce() {
		if answer, done, err := s.triggerWithOthers(ctx, a, r); done {
			return answer, err
		}
	}
	err := s.action(ctx, a, triggerAction, "job "+r.Job, nil,
		func(ctx context.Context, d *actionTx) (err error) {
			var now time.Time
			if answer, now, err = s.triggered(ctx, d, a, r); err != nil {
				return err
			}
			d.unannounced = answer.Adopted()
			if answer.State == jobs.Waiting && !answer.StartsLater(now) {
				err = queueBlocker(&d.last, d.definition, answer.ID, &answer.WaitsFor)
			}
			if d.silent && err == nil { // nothing will be committed
				err = d.SendBatch(ctx, &d.last).Close()
			}
			return err
		})
	return answer, err
}

const triggerAction = "trigger"

// ErrAtOnce refuses a trigger with a Wait of 0 in a transaction of the caller. Before the commit,
// the store cannot know whether something blocks the run.
var ErrAtOnce = errors.New("a trigger in a transaction cannot have a Wait of 0")

// TriggerTx is Trigger in a transaction of the caller, on a connection to the database of the
// store. Replicas see the run and its entry in the audit log when the transaction commits. An error
// leaves the transaction as it was. The result has no WaitsFor.
//
// The transaction must commit soon: until then, another trigger with the same key waits for it.
func (s *Store) TriggerTx(ctx context.Context, tx pgx.Tx, a storage.Action,
	r storage.TriggerRequest) (storage.Triggered, error) {
	if err := errors.Join(r.Check(), a.Check()); err != nil {
		return storage.Triggered{}, err
	}
	if r.AtOnce() {
		return storage.Triggered{}, ErrAtOnce
	}
	r.Key, a.Key, r.Adopter = cmp.Or(r.Key, uuid.NewString()), "", uuid.Nil
	var answer storage.Triggered
	err := pgx.BeginFunc(ctx, schemaTx{tx, s.schema}, func(savepoint pgx.Tx) error {
		schema, err := requireSchema(ctx, savepoint)
		if err != nil {
			return err
		}
		if schema.cluster != s.cluster {
			return fmt.Errorf("the transaction's database has cluster %s, expected %s",
				schema.cluster, s.cluster)
		}
		d := &actionTx{Tx: savepoint}
		if answer, _, err = s.triggered(ctx, d, a, r); err != nil || d.silent {
			return err
		}
		if err := s.queueAudit(d, a, triggerAction, "job "+r.Job, nil); err != nil {
			return err
		}
		s.queueNotify(&d.last, triggerAction) // at the commit of the caller
		return d.SendBatch(ctx, &d.last).Close()
	})
	return answer, wrap(triggerAction, err)
}

// TriggerSQLTx is TriggerTx in a transaction of database/sql, with any driver for PostgreSQL.
func (s *Store) TriggerSQLTx(ctx context.Context, tx *sql.Tx, a storage.Action,
	r storage.TriggerRequest) (storage.Triggered, error) {
	return s.TriggerTx(ctx, &sqlTx{tx: tx}, a, r)
}

// triggered returns the run of the key and the store's clock. It adds the run if there is none.
func (s *Store) triggered(ctx context.Context, d *actionTx, a storage.Action,
	r storage.TriggerRequest) (answer storage.Triggered, now time.Time, err error) {
	exists, err := s.lookBeforeTrigger(ctx, d, a, r)
	if err != nil {
		return answer, now, err
	}
	if exists {
		d.silent = true
		record, now, err := triggeredBefore(ctx, d, a, r)
		return storage.Triggered{Record: record}, now, err
	}
	var at *time.Time
	if !r.At.IsZero() {
		at = &r.At
	}
	id := r.RunID()
	var record storage.Record
	b := &pgx.Batch{}
	b.Queue(triggerRun, id, r.Job, r.Key, a.By("triggered"), paramsOrNull(r), r.Limit(), a.Actor,
		at, r.Delay, adopterOrNull(r))
	b.Queue(selectRuns+` WHERE r.id = $1`, id).Query(func(rows pgx.Rows) error {
		records, err := pgx.CollectRows(rows, scanRecord)
		if len(records) > 0 {
			record = records[0]
		}
		return err
	})
	b.Queue(`SELECT clock_timestamp()`).QueryRow(func(row pgx.Row) error { return row.Scan(&now) })
	if err := d.SendBatch(ctx, b).Close(); err != nil {
		return answer, now, err
	}
	if d.silent = record.ID != id; d.silent { // another was quicker with the key
		record, now, err = triggeredBefore(ctx, d, a, r)
	}
	detail := map[string]any{"run": id, "key": r.Key}
	if r.Later() {
		detail["scheduled_at"] = record.ScheduledAt
	}
	d.detail = detail
	return storage.Triggered{Record: record, Created: !d.silent}, now, err
}

// lookBeforeTrigger reports whether the actor's key has a run. If it has none, lookBeforeTrigger
// returns an error if the job cannot be triggered now.
func (s *Store) lookBeforeTrigger(ctx context.Context, d *actionTx, a storage.Action,
	r storage.TriggerRequest) (exists bool, err error) {
	var known bool
	var pauses []storage.Pause
	b := &pgx.Batch{}
	b.Queue(runByKey, r.Job, r.Key, a.Actor).Query(func(rows pgx.Rows) error {
		defer rows.Close()
		exists = rows.Next()
		return rows.Err()
	})
	b.Queue(jobIsKnown, r.Job).QueryRow(func(row pgx.Row) error { return row.Scan(&known) })
	b.Queue(pauseOfJob, r.Job).Query(func(rows pgx.Rows) (err error) {
		pauses, err = pgx.CollectRows(rows, scanPause)
		return err
	})
	d.definition = storage.Definition{Name: r.Job} // if no replica has registered the job yet
	b.Queue(lockedByJobs, []string{r.Job}).Query(func(rows pgx.Rows) error {
		var l lockedByJob
		_, err := pgx.ForEachRow(rows, l.fields(), func() (err error) {
			d.definition, err = l.definition()
			return err
		})
		return err
	})
	if err := d.SendBatch(ctx, b).Close(); err != nil || exists {
		return exists, err
	}
	switch {
	case !known:
		return false, fmt.Errorf("job %s: %w", r.Job, storage.ErrNotFound)
	case len(pauses) > 0 && !r.EvenPaused:
		return false, &storage.PausedError{Pause: pauses[0]}
	case !r.AtOnce():
		return false, nil
	}
	if _, err := d.Exec(ctx, lockTriggers, s.cluster.String(), r.Job); err != nil {
		return false, err
	}
	// sees all commits before it got the lock
	var blocker *storage.RunBlocker
	b = &pgx.Batch{}
	if err := queueBlocker(b, d.definition, uuid.New(), &blocker); err != nil {
		return false, err
	}
	if err := d.SendBatch(ctx, b).Close(); err != nil || blocker == nil {
		return false, err
	}
	return false, &storage.BusyError{Job: r.Job, Blocker: *blocker}
}

// lockedByJob is a row of lockedByJobs.
type lockedByJob struct {
	job, resources string
	mayOverlap     bool
}

func (l *lockedByJob) fields() []any { return []any{&l.job, &l.resources, &l.mayOverlap} }

// definition returns the job's active definition, as far as it decides what a run locks.
func (l *lockedByJob) definition() (d storage.Definition, err error) {
	d.Name, d.MayOverlap = l.job, l.mayOverlap
	d.Resources, err = parseRequests([]byte(l.resources))
	return d, err
}

// queueBlocker adds a query to b that sets blocker to what blocks a run of the definition, if
// anything does.
func queueBlocker(b *pgx.Batch, definition storage.Definition, run uuid.UUID,
	blocker **storage.RunBlocker) error {
	wants, err := definition.Requests()
	if err != nil {
		return err
	}
	queueBlockers(b, []rawID{run}, [][]locking.Request{wants},
		func(_ uuid.UUID, found *storage.RunBlocker) { *blocker = found })
	return nil
}

// queueBlockers adds a query to b that calls found with each of the runs that something blocks.
func queueBlockers(b *pgx.Batch, runs []rawID, wants [][]locking.Request,
	found func(run uuid.UUID, blocker *storage.RunBlocker)) {
	n := len(runs)
	columns := append([]any{uuid.Nil, runs, make([]*string, n), make([]bool, n)},
		probeColumns(runs, wants)...)
	b.Queue(findBlockers, append(columns, make([]time.Duration, n))...).
		Query(func(rows pgx.Rows) error {
			var run uuid.UUID
			var reason jobs.Reason
			var stored []byte
			_, err := pgx.ForEachRow(rows, []any{&run, &reason, &stored}, func() error {
				blocker, err := parseBlocker(stored)
				if err == nil {
					found(run, &storage.RunBlocker{Blocker: *blocker, Reason: reason})
				}
				return err
			})
			return err
		})
}

func adopterOrNull(r storage.TriggerRequest) *rawID {
	if r.Adopter == uuid.Nil {
		return nil
	}
	return (*rawID)(&r.Adopter)
}

func paramsOrNull(r storage.TriggerRequest) *string {
	if r.Params == nil {
		return nil
	}
	text := string(r.Params)
	return &text
}

// triggeredBefore returns the run of the actor's key and the store's clock; zero if the key has no
// run.
func triggeredBefore(ctx context.Context, tx pgx.Tx, a storage.Action,
	r storage.TriggerRequest) (run storage.Record, now time.Time, err error) {
	records, err := runsBy(ctx, tx, runByKey, r, a)
	if err != nil || len(records) == 0 {
		return run, now, err
	}
	run, first := records[0], records
	if run.Recovery > 0 {
		if first, err = runsBy(ctx, tx, firstByKey, r, a); err != nil {
			return run, now, err
		}
	}
	var same bool
	err = tx.QueryRow(ctx, sameParams, run.ID, paramsOrNull(r)).Scan(&now, &same)
	if err == nil && (!same || len(first) > 0 && !r.SameBegin(first[0])) {
		err = r.KeyUsed()
	}
	return run, now, err
}

// runsBy returns the runs that a query finds by the actor's key.
func runsBy(ctx context.Context, tx pgx.Tx, query string, r storage.TriggerRequest,
	a storage.Action) ([]storage.Record, error) {
	rows, err := tx.Query(ctx, query, r.Job, r.Key, a.Actor)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanRecord)
}
