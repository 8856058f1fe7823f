package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	// The lock lasts until the commit, so that no session ends during its start.
	holdSession = `
SELECT FROM holdfast.sessions WHERE id = $1 AND ended_at IS NULL AND expires_at > clock_timestamp()
    FOR KEY SHARE`

	sessionLives = `
SELECT FROM holdfast.sessions WHERE id = $1 AND ended_at IS NULL AND expires_at > clock_timestamp()`

	addFences = `
INSERT INTO holdfast.fences (resource)
SELECT name FROM unnest($1::text[]) AS n (name)
WHERE (SELECT true FROM holdfast.fences f WHERE f.resource = n.name COLLATE "C") IS NULL
ORDER BY name COLLATE "C"
ON CONFLICT DO NOTHING`

	// The order makes replicas that insert the same firings wait for each other in one direction.
	insertRuns      = insertRequested + insertSorted
	insertRequested = `
INSERT INTO holdfast.runs (id, job, scheduled_at, key, recovery, state, session, replica,
    created_at)
SELECT r.id, r.job, r.scheduled_at, r.key, r.recovery, 'waiting', s.id, s.replica, clock_timestamp()
FROM unnest($3::uuid[], $2::text[], $4::timestamptz[], $5::text[], $6::int[], $7::bigint[],
    $8::int[]) WITH ORDINALITY
    AS r (id, job, scheduled_at, key, recovery, version, attempt, place)
JOIN holdfast.sessions s ON s.id = $1 AND s.ended_at IS NULL AND s.expires_at > clock_timestamp()
WHERE (SELECT r.version > 0 AND j.version <> r.version FROM holdfast.jobs j
    WHERE j.name = r.job COLLATE "C") IS NOT TRUE`
	insertSorted = `
ORDER BY r.job COLLATE "C", r.scheduled_at, r.key COLLATE "C", r.recovery, r.place
ON CONFLICT DO NOTHING`

	// insertStarts alone decides whether a new firing is held back. A later pause or drain does not
	// affect it.
	insertStarts = `WITH ` + pausedJobs + insertRequested + `
    AND (r.attempt > 1 OR NOT s.draining AND (r.key <> ''
        OR r.job NOT IN (SELECT job FROM paused)))` + insertSorted

	// lockWaitingRuns locks the waits of the runs that already wait, so that a cancel comes
	// entirely before or after the start. It alone decides which of them are held back: their waits
	// lose their session, so that other replicas may adopt them and no run waits behind them. A run
	// that is no longer held back gets its session again.
	lockWaitingRuns = `
WITH ` + pausedJobs + `, locked_waits AS MATERIALIZED (
    SELECT w.run, w.session FROM holdfast.waits w WHERE w.run = ANY($3) ORDER BY w.run FOR UPDATE
), judged AS MATERIALIZED (
    SELECT p.run, p.session, r.reason, h.detail AS paused,
        s.draining AND q.attempt <= 1 OR h.detail IS NOT NULL AS held
    FROM (SELECT * FROM locked_waits WHERE session IS NULL OR session = $1) p
    JOIN unnest($3::uuid[], $2::text[], $4::text[], $5::int[]) AS q (run, job, key,
        attempt) USING (run)
    CROSS JOIN LATERAL (SELECT r.reason, r.backfill FROM holdfast.runs r
        WHERE r.id = p.run AND r.state = 'waiting' AND r.session = $1 OFFSET 0) r
    JOIN holdfast.sessions s ON s.id = $1 AND s.ended_at IS NULL
        AND s.expires_at > clock_timestamp()
    LEFT JOIN paused h ON h.job = q.job AND (q.key = '' OR r.backfill IS NOT NULL)
        AND q.attempt <= 1
), moved AS (
    UPDATE holdfast.waits w SET session = CASE WHEN j.held THEN NULL ELSE $1 END
    FROM judged j WHERE w.run = j.run
        AND w.run = ANY(ARRAY(SELECT run FROM judged WHERE held = (session IS NOT NULL)))
)
UPDATE holdfast.runs r SET reason = 'paused', detail = j.paused, blocker = NULL
FROM judged j WHERE r.id = j.run AND r.id = ANY(ARRAY(SELECT run FROM judged
    WHERE paused IS NOT NULL AND reason <> 'paused')) AND r.state = 'waiting'`

	// lockFences locks the session as holdSession does, and then three groups of fences, one after
	// the other. It fails if a fence is missing. It returns the names of the fences that are not
	// young. It appends the floors, in the order of the locks, to those of earlier statements of
	// the transaction.
	lockFences = `
SELECT array_agg(fence) FILTER (WHERE added_at < clock_timestamp() - ` + youngFence + `),
    2147483647 + (cardinality($2::text[]) + cardinality($3::text[]) + cardinality($4::text[])
        - count(fence))::int,
    set_config('holdfast.floors', (coalesce(` + fenceFloors + `, '{}')
        || array_agg(floor) FILTER (WHERE fence IS NOT NULL))::text, true)
FROM (
    SELECT NULL AS fence, NULL::timestamptz AS added_at, NULL::bigint AS floor
        FROM (` + holdSession + `) s
  UNION ALL
    SELECT * FROM (SELECT resource, added_at, floor FROM holdfast.fences WHERE resource = ANY($2)
        ORDER BY resource FOR NO KEY UPDATE) f
  UNION ALL
    SELECT * FROM (SELECT resource, added_at, floor FROM holdfast.fences WHERE resource = ANY($3)
        ORDER BY resource FOR SHARE) f
  UNION ALL
    SELECT * FROM (SELECT resource, added_at, floor FROM holdfast.fences WHERE resource = ANY($4)
        ORDER BY resource FOR NO KEY UPDATE) f) locked`

	// fenceFloors are the floors of the fences that lockFences has locked in this transaction;
	// NULL: none.
	fenceFloors = `nullif(current_setting('holdfast.floors', true), '')::bigint[]`

	// admit decides, by the rule of conflicts, on runs of which no two want related resources. If
	// the session has expired since insertRuns, the inserted runs are left for other replicas to
	// adopt. Only this statement checks the session, so that no run is lost in between.
	//
	// A run that waits for its own job, without a reservation, gets only the want of its job. No
	// other want of it would be respected, but startNew would leave the runs behind it undecided.
	admit = `
WITH RECURSIVE alive AS MATERIALIZED (` + sessionLives + `
), mine AS (
    SELECT q.run, coalesce(w.since, q.since) AS since, q.attempt, q.reserve, w.reserved_until,
        r.backfill
    FROM unnest($2::uuid[], $3::timestamptz[], $4::int[], $11::interval[]) AS q (run, since,
        attempt, reserve)
    CROSS JOIN LATERAL (SELECT r.backfill FROM holdfast.runs r
        WHERE r.id = q.run AND r.state = 'waiting' AND r.session = $1 OFFSET 0) r
    LEFT JOIN LATERAL (SELECT w.since, w.session IS NULL AS held, w.reserved_until
        FROM holdfast.waits w WHERE w.run = q.run OFFSET 0) w ON true
    WHERE EXISTS (SELECT FROM alive) AND w.held IS NOT TRUE
), stranded AS (
    INSERT INTO holdfast.waits (run, session, since)
    SELECT q.run, $1, q.since FROM unnest($2::uuid[], $3::timestamptz[]) AS q (run, since)
    CROSS JOIN LATERAL (SELECT FROM holdfast.runs r
        WHERE r.id = q.run AND r.state = 'waiting' AND r.session = $1 OFFSET 0) r
    WHERE NOT EXISTS (SELECT FROM alive)
    ON CONFLICT (run) DO NOTHING
), ` + conflicts + `, ` + roots + `, granted AS (
    INSERT INTO holdfast.claims (token, run, session, granted_at)
    SELECT nextval('holdfast.tokens'), m.run, $1, clock_timestamp()
    FROM mine m WHERE NOT EXISTS (SELECT FROM blocked b WHERE b.run = m.run)
    RETURNING token, run
), ` + raiseFloors + `, new_grants AS (
    INSERT INTO holdfast.grants (resource, token, mode, slots)
    SELECT p.name, g.token, p.mode, p.slots FROM granted g JOIN probe p USING (run) WHERE p.own
), ended_waits AS (
    DELETE FROM holdfast.waits w WHERE w.run = ANY(ARRAY(SELECT run FROM granted))
), ended_wants AS (
    DELETE FROM holdfast.wants w WHERE w.run = ANY(ARRAY(SELECT run FROM granted))
), begun AS (
    UPDATE holdfast.runs r SET state = 'running', token = g.token, attempt = m.attempt,
        started_at = coalesce(r.started_at, clock_timestamp()),
        retry_waits = ` + endedRetryWait + `,
            reason = '', detail = '', blocker = NULL,
        waited = r.blocker || jsonb_build_object('since',
            CASE WHEN m.attempt > 1 THEN coalesce(r.blocked_at, m.since) ELSE m.since END)
    FROM granted g JOIN mine m USING (run)
        WHERE r.id = g.run AND r.id = ANY(ARRAY(SELECT run FROM granted))
), new_waits AS (
    INSERT INTO holdfast.waits AS o (run, session, since, reserved_until, in_turn)
    SELECT b.run, $1, b.since, CASE WHEN starts_with(b.resource, 'job:')
        THEN coalesce(m.reserved_until, '-infinity') ELSE ` + reservedUntil + ` END,
        starts_with(b.resource, 'group:')
        FROM blocked b JOIN mine m USING (run)
    ON CONFLICT (run) DO UPDATE SET reserved_until = excluded.reserved_until,
        in_turn = excluded.in_turn
    WHERE (o.reserved_until, o.in_turn) IS DISTINCT FROM (excluded.reserved_until, excluded.in_turn)
), new_wants AS (
    INSERT INTO holdfast.wants (resource, since, run, mode, slots)
    SELECT p.name, p.since, p.run, p.mode, p.slots FROM blocked b
        JOIN probe p USING (run) JOIN mine m USING (run)
        WHERE p.own AND (NOT starts_with(b.resource, 'job:') OR starts_with(p.name, 'job:')
            OR m.reserved_until > clock_timestamp())
    ON CONFLICT DO NOTHING
)
UPDATE holdfast.runs r SET detail = '', blocker = ` + storedBlocker + `,
    reason = ` + refusalReason + `,
    blocked_at = CASE WHEN r.blocker -> 'holder' = b.holder THEN r.blocked_at WHEN r.reason = ''
        THEN b.since ELSE clock_timestamp() END
FROM blocked b WHERE r.id = b.run AND r.id = ANY(ARRAY(SELECT run FROM blocked))`

	// endedRetryWait is storage.EndRetryWait. A list of times is odd while a wait lasts. The
	// interval has seconds only, because the length of a day depends on the time zone.
	endedRetryWait = `CASE
            WHEN cardinality(r.retry_waits) > 2 * ` + mostRetryWaits + ` THEN
                (r.retry_waits[3] - make_interval(
                    secs => extract(epoch FROM r.retry_waits[2] - r.retry_waits[1])))
                || r.retry_waits[4:] || clock_timestamp()
            WHEN cardinality(r.retry_waits) % 2 = 1 THEN r.retry_waits || clock_timestamp()
            ELSE r.retry_waits END`
	mostRetryWaits = `32` // storage.MaxRetryWaits

	// startOutcomes reads the state of each run after this try, or after an earlier one whose reply
	// was lost. For a waiting run it also looks for an older waiter of its job.
	startOutcomes = `
SELECT q.run, EXISTS (` + sessionLives + `), coalesce(r.session = $1, false), coalesce(r.state, ''),
    c.token, r.reason, r.blocker,
    coalesce(q.version > 0 AND j.version <> q.version, false),
    CASE r.state WHEN 'waiting' THEN (SELECT w.session IS NULL FROM holdfast.waits w
        WHERE w.run = q.run) IS TRUE ELSE r.state IS NULL AND NOT EXISTS (
        SELECT FROM holdfast.runs o WHERE o.job = q.job COLLATE "C" AND o.recovery = q.recovery
            AND o.key = '' AND q.key = '' AND o.scheduled_at = q.scheduled_at
        UNION ALL
        SELECT FROM holdfast.runs o WHERE o.job = q.job COLLATE "C" AND o.recovery = q.recovery
            AND o.key <> '' AND o.key = q.key COLLATE "C") END,
    queued.run IS NOT NULL, place.reserved,
    r.state = 'waiting' AND (SELECT h.backfill FROM holdfast.runs h
        WHERE h.id = (r.blocker ->> 'id')::uuid) IS NOT NULL
FROM unnest($2::uuid[], $3::text[], $4::bigint[], $5::timestamptz[], $6::text[],
    $7::int[]) AS q (run, job, version, scheduled_at, key, recovery)
LEFT JOIN LATERAL (SELECT r.session, r.state, r.reason, r.blocker FROM holdfast.runs r
    WHERE r.id = q.run OFFSET 0) r ON true
LEFT JOIN LATERAL (SELECT c.token FROM holdfast.claims c
    WHERE c.run = q.run AND (c.session = $1) IS TRUE OFFSET 0) c ON true
LEFT JOIN LATERAL (SELECT j.version FROM holdfast.jobs j
    WHERE j.name = q.job COLLATE "C" OFFSET 0) j ON true
LEFT JOIN LATERAL (
    SELECT w.reserved_until - clock_timestamp() AS reserved FROM holdfast.waits w
    WHERE w.run = q.run AND r.state = 'waiting'
        AND w.reserved_until > clock_timestamp() OFFSET 0) place ON true
LEFT JOIN LATERAL (
    SELECT w.run FROM (SELECT * FROM holdfast.wants w
        WHERE w.resource = 'job:' || q.job COLLATE "C" AND w.since > '-infinity'
        ORDER BY w.since, w.run OFFSET 0) w
    CROSS JOIN LATERAL (` + liveWaiter + `) o
    WHERE r.state = 'waiting' LIMIT 1) queued ON queued.run <> q.run`
)

// Start implements storage.Firings. It may leave new requests undecided: see
// storage.StartUndecided.
func (s *Store) Start(ctx context.Context, session uuid.UUID,
	requests []storage.StartRequest) ([]storage.StartResult, error) {
	results := make([]storage.StartResult, len(requests))
	if len(requests) == 0 {
		return results, nil
	}
	asked := make(resultsByRun, len(requests))
	for i, r := range requests {
		asked[r.Run] = &results[i]
		if r.New {
			results[i].Outcome = storage.StartUndecided
		}
	}
	fresh, others := splitNew(requests)
	wanted := slices.Concat(wantedBy(fresh), wantedBy(others))
	names := allNames(wanted...)
	noteKnown := func() {}
	start := func(beside bool) error {
		return s.sendAgain(ctx, func(b *pgx.Batch, retry bool) {
			add := s.fencesToAdd(names, retry)
			if len(add) > 0 || len(others) > 0 { // otherwise lockFences is the first to lock
				b.Queue(holdSession, session)
			}
			if len(add) > 0 {
				b.Queue(addFences, add)
			}
			if len(others) > 0 {
				b.Queue(lockWaitingRuns, append([]any{session}, waitColumns(others)...)...)
			}
			noteKnown = s.queueFences(b, session, names, wanted)
			if len(fresh) > 0 {
				queueNew(b, session, fresh, names, beside, asked.readNew)
				queueRaise(b, fresh)
			}
			if len(others) > 0 {
				queueAdmit(b, session, others)
				b.Queue(startOutcomes, append([]any{session}, outcomeColumns(others)...)...).
					Query(asked.readOutcomes)
			}
		})
	}
	err := start(s.startsBeside())
	if codeOf(err) == uniqueViolation {
		s.raced.note()
		err = start(true)
	}
	if err != nil {
		return nil, wrap("start", err)
	}
	noteKnown()
	return results, nil
}

// queueAdmit inserts the runs that do not exist and decides on all, in their order.
func queueAdmit(b *pgx.Batch, session uuid.UUID, requests []storage.StartRequest) {
	b.Queue(insertStarts, append([]any{session}, runColumns(requests)...)...)
	for _, wave := range waves(wantedBy(requests)) {
		b.Queue(admit, append([]any{session}, admitColumns(requests, wave)...)...)
	}
}

// wantedBy returns the resources of each request.
func wantedBy(requests []storage.StartRequest) [][]locking.Request {
	wanted := make([][]locking.Request, len(requests))
	for i, r := range requests {
		wanted[i] = r.Requests
	}
	return wanted
}

// firingOrder is the order in which all replicas insert runs.
func firingOrder(a, b storage.Firing) int {
	return cmp.Or(strings.Compare(a.Job, b.Job), a.ScheduledAt.Compare(b.ScheduledAt),
		strings.Compare(a.Key, b.Key), cmp.Compare(a.Recovery, b.Recovery))
}

func runColumns(requests []storage.StartRequest) []any {
	requests = slices.SortedStableFunc(slices.Values(requests),
		func(a, b storage.StartRequest) int { return firingOrder(a.Firing, b.Firing) })
	n := len(requests)
	ids, names, scheduledTimes, keys := make([]rawID, n), make([]string, n), make([]time.Time, n),
		make([]string, n)
	recoveries, versions, attempts := make([]int, n), make([]int64, n), make([]int, n)
	for i, r := range requests {
		ids[i], names[i], scheduledTimes[i], keys[i] = r.Run, r.Firing.Job, r.Firing.ScheduledAt,
			r.Firing.Key
		recoveries[i], versions[i], attempts[i] = r.Firing.Recovery, r.Version, r.Attempt
	}
	return []any{names, ids, scheduledTimes, keys, recoveries, versions, attempts}
}

func waitColumns(requests []storage.StartRequest) []any {
	n := len(requests)
	names, ids, keys, attempts := make([]string, n), make([]rawID, n), make([]string, n),
		make([]int, n)
	for i, r := range requests {
		names[i], ids[i], keys[i], attempts[i] = r.Firing.Job, r.Run, r.Firing.Key, r.Attempt
	}
	return []any{names, ids, keys, attempts}
}

// admitColumns returns the columns of the requests at these indexes.
func admitColumns(requests []storage.StartRequest, locked_waits []int) []any {
	n := len(locked_waits)
	ids, sinces, attempts, reserves := make([]rawID, n), make([]time.Time, n), make([]int, n),
		make([]time.Duration, n)
	wanted := make([][]locking.Request, n)
	for i, place := range locked_waits {
		r := requests[place]
		ids[i], sinces[i], attempts[i], reserves[i], wanted[i] = r.Run, r.WaitSince, r.Attempt,
			r.Reserve, r.Requests
	}
	return append(append([]any{ids, sinces, attempts}, probeColumns(ids, wanted)...), reserves)
}

// resultsByRun maps the ids of runs to their results.
type resultsByRun map[uuid.UUID]*storage.StartResult

func outcomeColumns(requests []storage.StartRequest) []any {
	n := len(requests)
	ids, names, versions := make([]rawID, n), make([]string, n), make([]int64, n)
	scheduledTimes, keys, recoveries := make([]time.Time, n), make([]string, n), make([]int, n)
	for i, r := range requests {
		ids[i], names[i], versions[i] = r.Run, r.Firing.Job, r.Version
		scheduledTimes[i], keys[i], recoveries[i] = r.Firing.ScheduledAt, r.Firing.Key,
			r.Firing.Recovery
	}
	return []any{ids, names, versions, scheduledTimes, keys, recoveries}
}

func (a resultsByRun) readOutcomes(rows pgx.Rows) error {
	var row outcomeRow
	_, err := pgx.ForEachRow(rows, row.fields(), func() (err error) {
		*a[row.run], err = row.result()
		return err
	})
	return err
}

// outcomeRow is a row of startOutcomes.
type outcomeRow struct {
	run         uuid.UUID
	live, mine  bool
	state       jobs.State
	token       *jobs.Token
	reason      *jobs.Reason
	blocker     []byte
	staleByThen bool
	held        bool // it waits for others to adopt it, or there is no run of its firing
	queued      bool
	reserved    *time.Duration
	backfill    *bool // its blocker is a run of a backfill
}

func (o *outcomeRow) fields() []any {
	return []any{&o.run, &o.live, &o.mine, &o.state, &o.token, &o.reason, &o.blocker,
		&o.staleByThen, &o.held, &o.queued, &o.reserved, &o.backfill}
}

func (o *outcomeRow) result() (storage.StartResult, error) {
	switch {
	case o.mine && o.token != nil:
		return storage.StartResult{Outcome: storage.StartGranted, Token: *o.token}, nil
	case !o.live:
		return storage.StartResult{Outcome: storage.StartNotLive}, nil
	case o.state == "" && o.staleByThen:
		return storage.StartResult{Outcome: storage.StartStale}, nil
	case o.held && (o.mine || o.state == ""):
		return storage.StartResult{Outcome: storage.StartPaused}, nil
	case o.mine && o.state == jobs.Waiting:
		blocker, err := parseBlocker(o.blocker)
		result := storage.StartResult{Outcome: storage.StartBlocked, Blocker: blocker,
			Reason: *o.reason, Queued: o.queued, Backfill: o.backfill != nil && *o.backfill}
		if o.reserved != nil {
			result.Reserved = *o.reserved
		}
		return result, err
	default:
		return storage.StartResult{Outcome: storage.StartDuplicate}, nil
	}
}

// shownKey returns the display form of a resource's key, and any other text unchanged.
func shownKey(key string) string {
	if resource, err := locking.ParseKey(key); err == nil {
		return resource.String()
	}
	return key
}

// parseBlocker decodes a stored blocker and converts its resource keys to their display form.
func parseBlocker(encoded []byte) (*jobs.Blocker, error) {
	if encoded == nil {
		return nil, nil
	}
	var b jobs.Blocker
	if err := json.Unmarshal(encoded, &b); err != nil {
		return nil, err
	}
	b.Resource, b.Root.Resource = shownKey(b.Resource), shownKey(b.Root.Resource)
	return &b, nil
}
