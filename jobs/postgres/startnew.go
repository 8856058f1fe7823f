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
        OR EXISTS (SELECT FROM holdfast.wants w WHERE w.resource = ANY($9)
                AND w.since > '-infinity' AND w.since <= $7)
            AND EXISTS (SELECT FROM holdfast.wants w WHERE w.resource = n.name COLLATE "C"
                AND w.since > '-infinity' AND w.since <= $7
                AND NOT (n.mode = 'shared' AND w.mode = 'shared'))`

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
                AND w.resource < n.name COLLATE "C" || '0'
                AND w.since > '-infinity' AND w.since <= $7
                AND NOT (n.mode = 'shared' AND w.mode = 'shared')))`

	startNewTo = `
), refused AS (
    SELECT u.firing FROM unnest($11::int[], $12::int[]) AS u (firing, place)
    JOIN refusing USING (place)
), started AS (
    INSERT INTO holdfast.runs (id, job, scheduled_at, recovery, attempt, state, session, replica,
        token, created_at, started_at)
    SELECT m.run, m.job, m.scheduled_at, m.recovery, 1, 'running', m.session, m.replica,
        nextval('holdfast.tokens'), clock_timestamp(), clock_timestamp()
    FROM mine m
    WHERE m.taken IS NULL AND m.place NOT IN (SELECT firing FROM refused)
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
	var own []string
	for _, r := range fresh {
		for _, want := range r.Requests {
			own = append(own, want.Resource.Key())
		}
	}
	slices.Sort(own)
	b.Queue(raiseOwnFloors, slices.Compact(own))
}

// splitNew returns the new requests for startNew, and the requests that are not new. A new request
// with which an earlier one of the batch conflicts is in neither, so that none passes another.
func splitNew(requests []storage.StartRequest) (fresh, others []storage.StartRequest) {
	wanted := wantedBy(requests)
	waves := waveOf(wanted, allNames(wanted...))
	for i, r := range requests {
		switch {
		case !r.New:
			others = append(others, r)
		case waves[i] == 0 && r.Attempt == 1 && r.Firing.Key == "":
			if fresh == nil {
				fresh = make([]storage.StartRequest, 0, len(requests)-i)
			}
			fresh = append(fresh, r)
		}
	}
	return fresh, others
}

// queueNew starts the new requests. The transaction has locked the fences of these names.
func queueNew(b *pgx.Batch, session uuid.UUID, fresh []storage.StartRequest, fences names,
	beside bool, read func(pgx.Rows) error) {
	looks := lookUpsOf(fresh, fences)
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
	n := 0
	for _, r := range requests {
		n += len(r.Requests)
	}
	owners, resources := make([]rawID, 0, n), make([]string, 0, n)
	modes, slots := make([]string, 0, n), make([]int, 0, n)
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
	runs   []int // which firing uses which name: the place of the firing, from 1,
	uses   []int // and the place of the name, from 1
	fences []int // the place of the fence of each name, from 1, in the order of the locks
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
func lookUpsOf(requests []storage.StartRequest, fences names) lookUps {
	var l lookUps
	l.names, l.modes = make([]string, 0, len(fences)), make([]string, 0, len(fences))
	l.fences, l.most = make([]int, 0, len(fences)), make([]int, 0, len(fences))
	l.deep = make([]bool, 0, len(fences))
	l.runs, l.uses = make([]int, 0, 2*len(fences)), make([]int, 0, 2*len(fences))
	places := make([]int, kindsOfProbe*len(fences))
	for i, r := range requests {
		for p := range probes(r.Requests) {
			full := 1
			if p.own && p.mode == locking.Slotted {
				full = p.slots
			}
			fence := fences.place(p.name)
			place := &places[kindsOfProbe*fence+p.kind()]
			if *place == 0 {
				l.names, l.modes = append(l.names, p.name), append(l.modes, string(p.mode))
				l.most, l.deep = append(l.most, full), append(l.deep, p.deep)
				l.fences = append(l.fences, fence+1)
				*place = len(l.names)
			} else {
				l.most[*place-1] = min(l.most[*place-1], full)
			}
			l.runs, l.uses = append(l.runs, i+1), append(l.uses, *place)
		}
	}
	return l
}

// kindsOfProbe is the number of combinations of a mode with whether a name is wanted itself.
const kindsOfProbe = 6

// kind returns a number below kindsOfProbe.
func (p probe) kind() (n int) {
	switch p.mode {
	case locking.Shared:
		n = 1
	case locking.Slotted:
		n = 2
	}
	if p.own {
		n += kindsOfProbe / 2
	}
	return n
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
