package postgres

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"
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
//
// Most firings want no slots and no names that may have names beneath them. Batches of such firings
// use startPlain and startPlainBeside, which have fewer parts.
const (
	startNew         = startNewFrom + refusingAny + startNewTo + startNewReturns
	startNewBeside   = startNewFrom + refusingAny + startNewTo + besideOthers + startNewReturns
	startPlain       = startNewFrom + refusingPlain + startNewTo + startNewReturns
	startPlainBeside = startNewFrom + refusingPlain + startNewTo + besideOthers + startNewReturns

	besideOthers = `
    ON CONFLICT DO NOTHING`

	startNewFrom = `
WITH alive AS MATERIALIZED (
    SELECT s.id, s.replica FROM holdfast.sessions s WHERE s.id = $1 AND s.ended_at IS NULL
        AND s.expires_at > clock_timestamp() AND NOT s.draining
), ` + currentPauses + `, mine AS MATERIALIZED (
    SELECT q.*, a.id AS session, a.replica, (SELECT r.id <> q.run FROM holdfast.runs r
        WHERE r.job = q.job COLLATE "C" AND r.scheduled_at = q.scheduled_at
            AND r.recovery = q.recovery AND r.key = '') AS taken
    FROM unnest($3::uuid[], $2::text[], $4::timestamptz[], $5::int[], $6::bigint[])
        WITH ORDINALITY AS q (run, job, scheduled_at, recovery, version, place)
    CROSS JOIN alive a
    WHERE NOT EXISTS (
        SELECT FROM active_pauses p WHERE p.kind = 'all' OR p.kind = 'job' AND p.name = q.job
            OR p.kind = 'group' AND p.name = (` + activeGroup + `))
        AND (SELECT q.version > 0 AND j.version <> q.version FROM holdfast.jobs j
            WHERE j.name = q.job COLLATE "C") IS NOT TRUE
), refusing AS (
    SELECT n.place`

	// heldGrants is the condition for the grants g of the name n that conflict with it. It reads no
	// grants below the floor of the fence, which lockFences has read.
	heldGrants = `g.resource = n.name COLLATE "C"
            AND g.token >= coalesce((SELECT ` + fenceFloors + `)[n.fence], 0)
            AND NOT (n.mode = 'shared' AND g.mode = 'shared')`

	olderWants = `
        OR EXISTS (SELECT FROM holdfast.wants w WHERE w.resource = ANY($9) AND w.since <= $7)
            AND EXISTS (SELECT FROM holdfast.wants w WHERE w.resource = n.name COLLATE "C"
                AND w.since <= $7 AND NOT (n.mode = 'shared' AND w.mode = 'shared'))`

	refusingPlain = `
    FROM unnest($8::int[], $9::text[], $10::text[])
        WITH ORDINALITY AS n (fence, name, mode, place)
    WHERE EXISTS (SELECT FROM holdfast.grants g WHERE ` + heldGrants + `)` + olderWants

	refusingAny = `
    FROM unnest($8::int[], $9::text[], $10::text[], $17::int[], $18::bool[])
        WITH ORDINALITY AS n (fence, name, mode, most, deep, place)
    WHERE (SELECT count(*) >= n.most OR bool_or(g.mode <> n.mode) FROM (
            SELECT g.mode FROM holdfast.grants g WHERE ` + heldGrants + ` LIMIT n.most) g)` +
		olderWants + `
        OR n.deep AND (
            EXISTS (SELECT FROM holdfast.grants g WHERE g.resource > n.name COLLATE "C" || '/'
                AND g.resource < n.name COLLATE "C" || '0'
                AND NOT (n.mode = 'shared' AND g.mode = 'shared'))
            OR EXISTS (SELECT FROM holdfast.wants w WHERE w.resource > n.name COLLATE "C" || '/'
                AND w.resource < n.name COLLATE "C" || '0' AND w.since <= $7
                AND NOT (n.mode = 'shared' AND w.mode = 'shared')))`

	startNewTo = `
), refused AS (
    SELECT p.run FROM unnest($11::uuid[], $12::int[]) AS p (run, place) JOIN refusing USING (place)
), started AS (
    INSERT INTO holdfast.runs (id, job, scheduled_at, recovery, attempt, state, session, replica,
        token, created_at, started_at)
    SELECT m.run, m.job, m.scheduled_at, m.recovery, 1, 'running', m.session, m.replica,
        nextval('holdfast.tokens'), clock_timestamp(), clock_timestamp()
    FROM mine m
    WHERE m.taken IS NULL AND m.run NOT IN (SELECT run FROM refused)
    ORDER BY m.job COLLATE "C", m.scheduled_at, m.recovery, m.place`

	startNewReturns = `
    RETURNING id AS run, token
), granted AS (
    INSERT INTO holdfast.claims (token, run, session, granted_at)
    SELECT token, run, $1, clock_timestamp() FROM started
), new_grants AS (
    INSERT INTO holdfast.grants (resource, token, mode, slots)
    SELECT p.name, s.token, p.mode, p.slots
    FROM unnest($13::uuid[], $14::text[], $15::text[], $16::int[]) AS p (run, name, mode, slots)
    JOIN started s USING (run)
)
SELECT run, token FROM started UNION ALL SELECT run, NULL FROM mine WHERE taken`
)

// startStatement is startNew or one of its variants.
type startStatement struct{ plain, beside bool }

func (v startStatement) sql() string {
	switch {
	case v.plain && v.beside:
		return startPlainBeside
	case v.plain:
		return startPlain
	case v.beside:
		return startNewBeside
	}
	return startNew
}

// startsBeside reports whether replicas have lately inserted runs of one firing at the same time.
// The gate in memcached prevents such races, so they are frequent only without memcached. A race
// costs a second try of the whole batch. startNewBeside costs about a fifth more for each insert of
// a run.
func (s *Store) startsBeside() bool { return s.raced.lately() }

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

// queueNew starts the new requests. The transaction has locked the fences of wanted.
func queueNew(b *pgx.Batch, session uuid.UUID, fresh []storage.StartRequest,
	wanted []locking.Request, beside bool, read func(pgx.Rows) error) {
	looks := lookUpsOf(fresh, fenceNames(wanted))
	statement := startStatement{plain: looks.plain(), beside: beside}
	columns := slices.Concat([]any{session}, firingColumns(fresh),
		[]any{looks.fences, looks.names, looks.modes, looks.runs, looks.uses},
		grantedColumns(fresh))
	if !statement.plain {
		columns = append(columns, looks.most, looks.deep)
	}
	b.Queue(statement.sql(), columns...).Query(read)
}

// firingColumns returns the columns of the firings, and the time from which a waiter is younger
// than all of them.
func firingColumns(requests []storage.StartRequest) []any {
	n := len(requests)
	ids, names, scheduledTimes := make([]rawID, n), make([]string, n), make([]time.Time, n)
	recoveries, versions := make([]int, n), make([]int64, n)
	var latest time.Time
	for i, r := range requests {
		ids[i], names[i], scheduledTimes[i] = r.Run, r.Firing.Job, r.Firing.ScheduledAt
		recoveries[i], versions[i] = r.Firing.Recovery, r.Version
		if r.WaitSince.After(latest) {
			latest = r.WaitSince
		}
	}
	return []any{names, ids, scheduledTimes, recoveries, versions, latest}
}

// grantedColumns returns the columns of the grants.
func grantedColumns(requests []storage.StartRequest) []any {
	var owners []rawID
	var resources, modes []string
	var slots []int
	for _, r := range requests {
		for _, want := range r.Requests {
			owners, resources = append(owners, r.Run), append(resources, want.Resource.Key())
			modes, slots = append(modes, string(want.Mode)), append(slots, want.Slots)
		}
	}
	return []any{owners, resources, modes, slots}
}

// lookUps are the columns of the names to look up for new firings. Each name is in them once.
type lookUps struct {
	runs   []rawID // which run uses which name:
	uses   []int   // the place of the name, from 1
	fences []int   // the place of the fence of each name, from 1, in the order of the locks
	names  []string
	modes  []string
	most   []int  // the number of grants with which a name is full
	deep   []bool // whether there may be names beneath it
}

// plain reports whether startPlain can look up the names.
func (l lookUps) plain() bool {
	return !slices.Contains(l.deep, true) && !slices.Contains(l.modes, string(locking.Slotted))
}

// lookUpsOf returns the names to look up for the requests. fences are the locked fences.
func lookUpsOf(requests []storage.StartRequest, fences []string) lookUps {
	type lookUp struct {
		name string
		mode locking.Mode
		own  bool
	}
	var l lookUps
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
				l.most[place-1] = min(l.most[place-1], full)
			} else {
				fence, _ := slices.BinarySearch(fences, p.name)
				l.names, l.modes = append(l.names, p.name), append(l.modes, string(p.request.Mode))
				l.most, l.deep = append(l.most, full), append(l.deep, p.deep)
				l.fences = append(l.fences, fence+1)
				place = len(l.names)
				places[key] = place
			}
			l.runs, l.uses = append(l.runs, r.Run), append(l.uses, place)
		}
	}
	return l
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
