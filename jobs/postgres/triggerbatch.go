package postgres

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/batch"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	// triggerRuns is triggerRun for many triggers, with their entries in the audit log. It leaves
	// out a trigger that may not be accepted: its actor's key has a run, or its job is unknown or
	// paused. The order makes replicas that insert the same keys wait for each other in one
	// direction.
	triggerRuns = `
WITH ` + currentPauses + `, at_once AS MATERIALIZED (
    SELECT date_trunc('microseconds', clock_timestamp()) AS t
), accepted AS MATERIALIZED (
    SELECT q.*, o.t, coalesce(q.at, o.t + q.delay) AS begin
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::jsonb[],
        $7::interval[], $8::timestamptz[], $9::interval[], $10::bool[], $11::bool[], $12::uuid[],
        $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[],
        $19::text[], $20::uuid[]) AS q (run, job, key, actor, detail, params, wait_limit, at, delay,
        later, even_paused, entry, via, proof, client, request_id, replica, reason, request,
        adopter)
    CROSS JOIN at_once o
    WHERE ((SELECT true FROM holdfast.specs s
            WHERE s.job = q.job COLLATE "C" AND NOT s.removed) IS TRUE
        OR (SELECT j.version > 0 FROM holdfast.jobs j WHERE j.name = q.job COLLATE "C") IS TRUE)
        AND (q.even_paused OR (SELECT true FROM active_pauses
            WHERE ` + pausesTriggers + ` LIMIT 1) IS NULL)
        AND (SELECT true FROM holdfast.runs r WHERE r.job = q.job COLLATE "C"
            AND r.key = q.key COLLATE "C" AND r.key <> '' AND r.key_actor = q.actor COLLATE "C"
            AND r.unsuccessful_state IS DISTINCT FROM 'skipped' LIMIT 1) IS NULL
), new AS (
    INSERT INTO holdfast.runs (id, job, scheduled_at, key, state, created_at, reason, detail,
        params, start_by, key_actor, session, replica)
    SELECT q.run, q.job, q.begin, q.key, 'waiting', q.t, 'triggered', q.detail, q.params,
        greatest(q.begin, q.t) + q.wait_limit, q.actor, a.id, coalesce(a.replica, '')
    FROM accepted q LEFT JOIN LATERAL (` + adopterOfTrigger + `) a ON q.begin <= q.t
    ORDER BY q.job COLLATE "C", q.key COLLATE "C", q.actor COLLATE "C"
    ON CONFLICT DO NOTHING
    RETURNING id, job, key, session, scheduled_at, greatest(scheduled_at, created_at) AS since
), place AS (
    INSERT INTO holdfast.wants (resource, since, run, mode, slots)
        SELECT 'job:' || job, since, id, 'exclusive', 0 FROM new
), queued AS (
    INSERT INTO holdfast.waits (run, session, since, triggered)
        SELECT id, session, since, true FROM new
), entries AS (
    INSERT INTO holdfast.audit (id, at, actor, via, proof, client, request_id, replica, action,
        target, reason, detail, key, request)
    SELECT q.entry, clock_timestamp(), q.actor, q.via, q.proof, q.client, q.request_id, q.replica,
        'trigger', 'job ' || q.job, q.reason, jsonb_build_object('run', n.id, 'key', n.key) ||
        CASE WHEN q.later THEN jsonb_build_object('scheduled_at', rtrim(rtrim(to_char(
            n.scheduled_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), '0'), '.') || 'Z')
            ELSE '{}' END, '', q.request
    FROM new n JOIN accepted q ON q.run = n.id
    RETURNING id, at
), unsealed AS (
    INSERT INTO holdfast.audit_unsealed (entry, at) SELECT id, at FROM entries
)
SELECT FROM new`

	// notifyUnlessAdopted is notify if a waiting run of $3 has no session. Its condition on the
	// session matches no index: many runs may have no session.
	notifyUnlessAdopted = `
SELECT pg_notify($1, $2) WHERE EXISTS (SELECT FROM holdfast.waits w
    WHERE w.run = ANY($3) AND (w.session IS NULL) IS TRUE)`

	// triggerLockTimeout bounds how long a batch waits for the key of one trigger, which delays the
	// others.
	triggerLockTimeout = "200ms"

	// maxTriggerWeight bounds a batch. A trigger without params weighs 1.
	maxTriggerWeight = 500

	maxLocked = 10000 // jobs whose definitions are kept
)

// triggerCall is one trigger of a batch. Its request has a key.
type triggerCall struct {
	run     uuid.UUID
	action  storage.Action
	request storage.TriggerRequest
}

func (c triggerCall) weight() int { return 1 + len(c.request.Params)/1024 }

// triggerBatcher collects concurrent triggers into batches, each of one transaction. It may be used
// concurrently.
type triggerBatcher struct {
	store *Store
	calls *batch.Batch[triggerCall, storage.Triggered]

	mu sync.Mutex
	// locked has what runs of jobs locked at their last triggers, by job. It saves a round trip.
	locked map[string]lockedWants
}

// lockedWants is what the runs of an active definition lock.
type lockedWants struct {
	read  lockedByJob
	wants []locking.Request
}

func newTriggerBatcher(s *Store) *triggerBatcher {
	t := &triggerBatcher{store: s, locked: map[string]lockedWants{}}
	t.calls = batch.New(batch.Options[triggerCall, storage.Triggered]{Send: t.send,
		Timeout: answerTimeout, Most: maxTriggerWeight, Weigh: triggerCall.weight,
		Whole: func(err error, _ time.Duration) bool {
			return errors.Is(err, storage.ErrUnavailable)
		}})
	return t
}

// triggerWithOthers triggers in a transaction with concurrent triggers. It reports false if this
// transaction has not added the run, and has had no other effect: Trigger then decides alone. This
// happens if the trigger must be refused, if its key has a run, or if another transaction keeps one
// of the rows locked.
func (s *Store) triggerWithOthers(ctx context.Context, a storage.Action,
	r storage.TriggerRequest) (answer storage.Triggered, done bool, err error) {
	if a.Check() != nil {
		return answer, false, nil
	}
	answer, err = s.triggers.calls.Ask(ctx, triggerCall{run: r.RunID(), action: a, request: r})
	if errors.Is(err, storage.ErrRowHeld) {
		return answer, false, nil
	}
	return answer, err != nil || answer.Created, wrap(triggerAction, err)
}

// send triggers in one transaction and one round trip, unless the definition of a job has changed.
// The answer to a trigger that was left out is zero.
func (t *triggerBatcher) send(ctx context.Context,
	calls []triggerCall) ([]storage.Triggered, error) {
	answers := make([]storage.Triggered, len(calls))
	place := make(map[uuid.UUID]int, len(calls))
	runs, names := make([]rawID, len(calls)), make([]string, len(calls))
	for i, c := range calls {
		place[c.run], runs[i], names[i] = i, c.run, c.request.Job
	}
	slices.Sort(names)
	names = slices.Compact(names)
	stale := map[string]bool{}
	var now time.Time
	found := func(run uuid.UUID, blocker *storage.RunBlocker) {
		if a := &answers[place[run]]; a.Created && !a.StartsLater(now) {
			a.WaitsFor = blocker
		}
	}
	s := t.store
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	b.Queue(beginByHash, triggerLockTimeout)
	b.Queue(lockedByJobs, names).Query(func(rows pgx.Rows) error {
		return t.learn(rows, names, stale)
	})
	b.Queue(triggerRuns, triggerColumns(calls)...)
	b.Queue(`SELECT clock_timestamp()`).QueryRow(func(row pgx.Row) error { return row.Scan(&now) })
	b.Queue(selectRuns+` WHERE r.id = ANY($1)`, runs).Query(func(rows pgx.Rows) error {
		records, err := pgx.CollectRows(rows, scanRecord)
		for _, r := range records {
			answers[place[r.ID]] = storage.Triggered{Record: r, Created: true}
		}
		return err
	})
	t.queueBlockers(b, calls, nil, found)
	committed := queueCommit(b)
	b.Queue(beginPipeline, triggerLockTimeout)
	b.Queue(notifyUnlessAdopted, s.channel(), triggerAction, runs)
	err := s.beforeCommit(s.pool.send(ctx, b), committed)
	if err != nil {
		return nil, wrap(triggerAction, err)
	}
	if len(stale) == 0 {
		return answers, nil
	}
	err = s.pipelineByHash(ctx, "find blockers", func(b *pgx.Batch) {
		t.queueBlockers(b, calls, stale, found)
	})
	if err != nil {
		s.log.Debug().Err(err).Msg("runs are triggered, their blockers are not known")
	}
	return answers, nil
}

// learn reads the active definitions of the jobs, and adds to stale the jobs whose definitions were
// not known. If no replica has registered a job yet, only its own name is known.
func (t *triggerBatcher) learn(rows pgx.Rows, names []string, stale map[string]bool) error {
	active := make(map[string]lockedByJob, len(names))
	var l lockedByJob
	if _, err := pgx.ForEachRow(rows, l.fields(), func() error {
		active[l.job] = l
		return nil
	}); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.locked) > maxLocked {
		clear(t.locked)
	}
	for _, name := range names {
		l, found := active[name]
		if !found {
			l = lockedByJob{job: name, resources: "[]"}
		}
		if t.locked[name].read == l {
			continue
		}
		definition, err := l.definition()
		if err != nil {
			return err
		}
		wants, err := definition.Requests()
		if err != nil {
			return err
		}
		t.locked[name], stale[name] = lockedWants{l, wants}, true
	}
	return nil
}

// queueBlockers adds a query for the blockers of those runs whose definitions are known. only
// restricts it to some jobs; nil: all.
func (t *triggerBatcher) queueBlockers(b *pgx.Batch, calls []triggerCall, only map[string]bool,
	found func(uuid.UUID, *storage.RunBlocker)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var runs []rawID
	var wants [][]locking.Request
	for _, c := range calls {
		known := t.locked[c.request.Job].wants
		if len(known) > 0 && (only == nil || only[c.request.Job]) {
			runs, wants = append(runs, c.run), append(wants, known)
		}
	}
	if len(runs) > 0 {
		queueBlockers(b, runs, wants, found)
	}
}

func triggerColumns(calls []triggerCall) []any {
	n := len(calls)
	runs, entries := make([]rawID, n), make([]rawID, n)
	texts := make([][]string, 11)
	for i := range texts {
		texts[i] = make([]string, n)
	}
	params, limits, ats := make([]*string, n), make([]*time.Duration, n), make([]*time.Time, n)
	delays, laters, evenPaused := make([]time.Duration, n), make([]bool, n), make([]bool, n)
	adopters := make([]*rawID, n)
	for i, c := range calls {
		a, r := c.action, c.request
		runs[i], entries[i] = c.run, uuid.New()
		for column, text := range []string{r.Job, r.Key, a.Actor, a.By("triggered"), a.Via,
			a.Proof, a.Client, a.RequestID, a.Replica, a.Reason, a.Request()} {
			texts[column][i] = text
		}
		params[i], limits[i], delays[i] = paramsOrNull(r), r.Limit(), r.Delay
		if !r.At.IsZero() {
			ats[i] = &r.At
		}
		laters[i], evenPaused[i], adopters[i] = r.Later(), r.EvenPaused, adopterOrNull(r)
	}
	return []any{runs, texts[0], texts[1], texts[2], texts[3], params, limits, ats, delays, laters,
		evenPaused, entries, texts[4], texts[5], texts[6], texts[7], texts[8], texts[9], texts[10],
		adopters}
}
