package postgres

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// startNew inserts new firings as running runs, each with its claim and its grants. It leaves out a
// firing that may not start now: another run has it, its job is paused or has another active
// definition, or it may conflict with a holder or an older waiter. It returns the token of each run
// that it has started, and NULL for a firing that another run has. No two of the firings want
// related resources.
//
// It looks up each name once, although many firings may have the same ancestors. A waiter counts as
// older if it is older than the youngest of the firings.
//
// It fails with a unique violation if another replica inserts a run of one of the firings at the
// same time. startNewBeside leaves that firing out, which costs each run more.
const (
	startNew       = startNewFrom + startNewTo
	startNewBeside = startNewFrom + `
    ON CONFLICT DO NOTHING` + startNewTo

	startNewFrom = `
WITH alive AS MATERIALIZED (
    SELECT s.id, s.replica FROM holdfast.sessions s WHERE s.id = $1 AND s.ended_at IS NULL
        AND s.expires_at > clock_timestamp() AND NOT s.draining
), ` + currentPauses + `, mine AS MATERIALIZED (
    SELECT q.*, a.id AS session, a.replica, (SELECT r.id <> q.run FROM holdfast.runs r
        WHERE r.job = q.job COLLATE "C" AND r.scheduled_at = q.scheduled_at
            AND r.recovery = q.recovery AND r.key = '') AS taken
    FROM unnest($3::uuid[], $2::text[], $4::timestamptz[], $5::int[], $17::bigint[])
        WITH ORDINALITY AS q (run, job, scheduled_at, recovery, version, place)
    CROSS JOIN alive a
    WHERE NOT EXISTS (
        SELECT FROM active_pauses p WHERE p.kind = 'all' OR p.kind = 'job' AND p.name = q.job
            OR p.kind = 'group' AND p.name = (` + activeGroup + `))
        AND (SELECT q.version > 0 AND j.version <> q.version FROM holdfast.jobs j
            WHERE j.name = q.job COLLATE "C") IS NOT TRUE
), refusing AS (
    SELECT n.place
    FROM unnest($8::text[], $9::text[], $10::int[], $11::bool[]) WITH ORDINALITY AS n (name, mode,
        most, deep, place)
    WHERE (SELECT count(*) >= n.most OR bool_or(g.mode <> n.mode) FROM (
            SELECT g.mode FROM holdfast.grants g WHERE g.resource = n.name COLLATE "C"
                AND g.token >= coalesce((SELECT f.floor FROM holdfast.fences f
                    WHERE f.resource = n.name COLLATE "C"), 0)
                AND NOT (n.mode = 'shared' AND g.mode = 'shared')
            LIMIT n.most) g)
        OR EXISTS (SELECT FROM holdfast.wants w WHERE w.resource = ANY($8) AND w.since <= $16)
            AND EXISTS (SELECT FROM holdfast.wants w WHERE w.resource = n.name COLLATE "C"
                AND w.since <= $16 AND NOT (n.mode = 'shared' AND w.mode = 'shared'))
        OR n.deep AND (
            EXISTS (SELECT FROM holdfast.grants g WHERE g.resource > n.name COLLATE "C" || '/'
                AND g.resource < n.name COLLATE "C" || '0'
                AND NOT (n.mode = 'shared' AND g.mode = 'shared'))
            OR EXISTS (SELECT FROM holdfast.wants w WHERE w.resource > n.name COLLATE "C" || '/'
                AND w.resource < n.name COLLATE "C" || '0' AND w.since <= $16
                AND NOT (n.mode = 'shared' AND w.mode = 'shared')))
), refused AS (
    SELECT p.run FROM unnest($6::uuid[], $7::int[]) AS p (run, place) JOIN refusing USING (place)
), started AS (
    INSERT INTO holdfast.runs (id, job, scheduled_at, recovery, attempt, state, session, replica,
        token, created_at, started_at)
    SELECT m.run, m.job, m.scheduled_at, m.recovery, 1, 'running', m.session, m.replica,
        nextval('holdfast.tokens'), clock_timestamp(), clock_timestamp()
    FROM mine m
    WHERE m.taken IS NULL AND m.run NOT IN (SELECT run FROM refused)
    ORDER BY m.job COLLATE "C", m.scheduled_at, m.recovery, m.place`

	startNewTo = `
    RETURNING id AS run, token
), granted AS (
    INSERT INTO holdfast.claims (token, run, session, granted_at)
    SELECT token, run, $1, clock_timestamp() FROM started
), new_grants AS (
    INSERT INTO holdfast.grants (resource, token, mode, slots)
    SELECT p.name, s.token, p.mode, p.slots
    FROM unnest($12::uuid[], $13::text[], $14::text[], $15::int[]) AS p (run, name, mode, slots)
    JOIN started s USING (run)
)
SELECT run, token FROM started UNION ALL SELECT run, NULL FROM mine WHERE taken`
)

// statementOfStart returns startNew, or startNewBeside if replicas have lately inserted runs of one
// firing at the same time. The gate in memcached prevents such races, so they are frequent only
// without memcached. A race costs a second try of the whole batch. startNewBeside costs about a
// fifth more for each insert of a run.
func (s *Store) statementOfStart() string {
	if s.raced.lately() {
		return startNewBeside
	}
	return startNew
}

// raiseOdds is how many batches of new firings there are for each that raises floors.
const raiseOdds = 16

// queueRaise raises the floors of the names that the firings want, in one of raiseOdds batches. So
// most starts only lock a fence, and a floor may be some starts of its name behind.
func queueRaise(b *pgx.Batch, fresh []storage.StartRequest) {
	if rand.N(raiseOdds) > 0 {
		return
	}
	var names []string
	for _, r := range slices.Concat(wantedBy(fresh)...) {
		names = append(names, r.Resource.Key())
	}
	slices.Sort(names)
	b.Queue(raiseOwnFloors, slices.Compact(names))
}

// splitNew returns the new requests for startNew, and the requests that are not new. A new request
// with which an earlier one of the batch conflicts is in neither, so that none passes another.
func splitNew(requests []storage.StartRequest) (fresh, others []storage.StartRequest) {
	first := waves(wantedBy(requests))[0]
	for i, r := range requests {
		_, leads := slices.BinarySearch(first, i)
		switch {
		case !r.New:
			others = append(others, r)
		case leads && r.Attempt == 1 && r.Firing.Key == "":
			fresh = append(fresh, r)
		}
	}
	return fresh, others
}

// newColumns returns the columns of startNew.
func newColumns(requests []storage.StartRequest) []any {
	n := len(requests)
	ids, names, scheduledTimes := make([]rawID, n), make([]string, n), make([]time.Time, n)
	recoveries, versions := make([]int, n), make([]int64, n)
	var owners []rawID
	var resources, modes []string
	var slots []int
	var latest time.Time
	for i, r := range requests {
		ids[i], names[i], scheduledTimes[i] = r.Run, r.Firing.Job, r.Firing.ScheduledAt
		recoveries[i], versions[i] = r.Firing.Recovery, r.Version
		if r.WaitSince.After(latest) {
			latest = r.WaitSince
		}
		for _, want := range r.Requests {
			owners, resources = append(owners, r.Run), append(resources, want.Resource.Key())
			modes, slots = append(modes, string(want.Mode)), append(slots, want.Slots)
		}
	}
	columns := append([]any{names, ids, scheduledTimes, recoveries}, lookUpColumns(requests)...)
	return append(columns, owners, resources, modes, slots, latest, versions)
}

// lookUpColumns returns the columns of the names to look up for the requests: first which run looks
// up which name, by the place of the name from 1, and then the names, each of them once. The last
// two are the number of grants with which a name is full, and whether there may be names beneath
// it.
func lookUpColumns(requests []storage.StartRequest) []any {
	type lookUp struct {
		name string
		mode locking.Mode
		own  bool
	}
	var runs []rawID
	var uses []int
	var names, modes []string
	var most []int
	var deep []bool
	places := map[lookUp]int{}
	for _, r := range requests {
		for _, p := range probes(r.Requests) {
			full := 1
			if p.own && p.request.Mode == locking.Slotted {
				full = p.request.Slots
			}
			key := lookUp{p.name, p.request.Mode, p.own}
			place, known := places[key]
			if known {
				most[place-1] = min(most[place-1], full)
			} else {
				names, modes = append(names, p.name), append(modes, string(p.request.Mode))
				most, deep = append(most, full), append(deep, p.deep)
				place = len(names)
				places[key] = place
			}
			runs, uses = append(runs, r.Run), append(uses, place)
		}
	}
	return []any{runs, uses, names, modes, most, deep}
}

func (a resultsByRun) readNew(rows pgx.Rows) error {
	var run rawID
	var token *int64
	_, err := pgx.ForEachRow(rows, []any{&run, &token}, func() error {
		if token == nil {
			*a[run] = storage.StartResult{Outcome: storage.StartDuplicate}
			return nil
		}
		*a[run] = storage.StartResult{Outcome: storage.StartGranted, Token: jobs.Token(*token)}
		return nil
	})
	return err
}
