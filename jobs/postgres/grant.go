package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	// lockWaits blocks a withdrawal of the same locks until the end. Both lock the waits in one
	// order, so that they do not deadlock.
	lockWaits = `SELECT FROM holdfast.waits WHERE run = ANY($1) ORDER BY run FOR UPDATE`

	// asked lists the locks that have no claim yet. A lock without a wait is younger than all
	// waiters.
	asked = `
WITH RECURSIVE mine AS (
    SELECT q.run, $1::uuid AS session, coalesce(w.since, 'infinity') AS since, q.owner, q.waits,
        q.reserve, w.reserved_until, NULL::uuid AS backfill
    FROM unnest($2::uuid[], $3::jsonb[], $4::bool[], $11::interval[]) AS q (run, owner, waits,
        reserve)
    LEFT JOIN LATERAL (SELECT w.since, w.reserved_until FROM holdfast.waits w
        WHERE w.run = q.run OFFSET 0) w ON true
    LEFT JOIN LATERAL (SELECT true AS stands FROM holdfast.claims c
        WHERE c.run = q.run OFFSET 0) c ON true
    WHERE c.stands IS NULL
), ` + conflicts

	// refuse runs before any fence is locked, so that a refused request locks none. So clients that
	// poll do not block others at a fence. It stores the refused requests for the later statements.
	refuse = asked + `
SELECT b.run, b.holder_id, b.resource, b.holder, b.holder_since, b.waiting,
    (SELECT set_config('holdfast.refused', coalesce(array_agg(run)::text, '{}'), true) FROM blocked)
FROM (SELECT) always LEFT JOIN blocked b ON true`

	refused = `unnest(current_setting('holdfast.refused')::uuid[]) AS r (run)`

	// wantedFences lists the names of the requests that were not refused.
	wantedFences = `
WITH wanted AS MATERIALIZED (
    SELECT coalesce(array_agg(DISTINCT n.name), '{}') AS names
        FROM unnest($1::text[], $2::uuid[]) AS n (name, run)
    WHERE NOT EXISTS (SELECT FROM ` + refused + ` WHERE r.run = n.run)
)
SELECT 2147483647 + ((SELECT cardinality(names) FROM wanted) - count(*))::int FROM (
    SELECT FROM holdfast.fences WHERE resource = ANY((SELECT names FROM wanted)::text[])
        ORDER BY resource `
	lockWantedAlone = wantedFences + `FOR NO KEY UPDATE) f`
	lockWantedShare = wantedFences + `FOR SHARE) f`

	// grant decides on a set of locks of which no two want related resources, by the rule of
	// conflicts. It grants nothing to a request that refuse has refused, because its fences are not
	// locked.
	grant = asked + `, ` + roots + `, refused AS (
    SELECT run FROM blocked UNION SELECT r.run FROM ` + refused + `
), granted AS (
    INSERT INTO holdfast.claims (token, run, session, owner, granted_at)
    SELECT nextval('holdfast.tokens'), m.run, m.session, m.owner, clock_timestamp()
    FROM mine m WHERE NOT EXISTS (SELECT FROM refused r WHERE r.run = m.run)
    ON CONFLICT (run) DO NOTHING RETURNING token, run
), ` + raiseFloors + `, new_grants AS (
    INSERT INTO holdfast.grants (resource, token, mode, slots)
    SELECT p.name, g.token, p.mode, p.slots FROM granted g JOIN probe p USING (run) WHERE p.own
), ended_waits AS (
    DELETE FROM holdfast.waits w WHERE w.run = ANY(ARRAY(SELECT run FROM granted))
), ended_wants AS (
    DELETE FROM holdfast.wants w WHERE w.run = ANY(ARRAY(SELECT run FROM granted))
), new_waits AS (
    INSERT INTO holdfast.waits AS o (run, session, since, owner, blocker, reserved_until)
    SELECT m.run, m.session, clock_timestamp(), m.owner,
        (SELECT ` + storedBlocker + ` FROM blocked b WHERE b.run = m.run), ` + reservedUntil + `
    FROM mine m JOIN refused r USING (run) WHERE m.waits
    ON CONFLICT (run) DO UPDATE SET reserved_until = excluded.reserved_until,
        blocker = coalesce(excluded.blocker, o.blocker)
    WHERE o.reserved_until <> excluded.reserved_until OR o.blocker IS DISTINCT
        FROM coalesce(excluded.blocker, o.blocker)
    RETURNING run, since
), new_wants AS (
    INSERT INTO holdfast.wants (resource, since, run, mode, slots)
    SELECT p.name, n.since, p.run, p.mode, p.slots FROM new_waits n
        JOIN probe p USING (run) WHERE p.own
    ON CONFLICT DO NOTHING
)
SELECT run, holder_id, resource, holder, holder_since, waiting, '' FROM blocked`

	// grantOutcomes reads the claims of this try, and of an earlier or a concurrent try with the
	// same ids.
	grantOutcomes = `SELECT c.run, c.token FROM holdfast.claims c
		WHERE c.run = ANY($2) AND (c.session = $1) IS TRUE`

	// takePlaces adds waits without a check for conflicts.
	takePlaces = `
WITH new_waits AS (
    INSERT INTO holdfast.waits (run, session, since, owner, reserved_until)
    SELECT q.run, $1, clock_timestamp(), q.owner,
        CASE WHEN q.reserve > '0' THEN clock_timestamp() + q.reserve ELSE '-infinity' END
    FROM unnest($2::uuid[], $3::jsonb[], $4::bool[], $11::interval[]) AS q (run, owner, waits,
        reserve)
    WHERE q.waits AND NOT EXISTS (SELECT FROM holdfast.claims c
        WHERE c.run = ANY($2) AND c.run = q.run)
    ORDER BY q.run ON CONFLICT (run) DO NOTHING RETURNING run, since
)
INSERT INTO holdfast.wants (resource, since, run, mode, slots)
SELECT p.name, n.since, p.run, p.mode, p.slots
FROM unnest($5::uuid[], $6::text[], $7::text[], $8::int[], $9::bool[], $10::bool[]) AS p (run, name,
    mode, slots, own, deep)
JOIN new_waits n USING (run) WHERE p.own`
)

// Grant decides on each request in one round trip. If it cannot lock a fence because other
// transactions share it continuously, it first adds the waits of the waiting requests, to which
// younger requests yield. Then it tries once more.
func (g grants) Grant(ctx context.Context, session uuid.UUID,
	requests []locking.GrantRequest) ([]locking.GrantResult, error) {
	if err := checkGrants(requests); err != nil {
		return nil, fmt.Errorf("grant: %w", err)
	}
	owners, err := encodeOwners(requests)
	if err != nil {
		return nil, fmt.Errorf("grant: %w", err)
	}
	results, err := g.decide(ctx, session, requests, owners)
	if isTimeout(err) && ctx.Err() == nil &&
		slices.ContainsFunc(requests, func(r locking.GrantRequest) bool { return r.Wait }) {
		err = wrapLocks("add waits", g.store.send(ctx, beginByHash, func(b *pgx.Batch) {
			b.Queue(holdLiving, session, g.store.lockTimeout)
			b.Queue(takePlaces, append([]any{session},
				grantColumns(requests, owners, allIndexes(requests))...)...)
		}))
		if err == nil {
			results, err = g.decide(ctx, session, requests, owners)
		}
	}
	return results, err
}

func allIndexes(requests []locking.GrantRequest) []int {
	indexes := make([]int, len(requests))
	for i := range indexes {
		indexes[i] = i
	}
	return indexes
}

// decide is one try of Grant.
func (g grants) decide(ctx context.Context, session uuid.UUID, requests []locking.GrantRequest,
	owners []string) ([]locking.GrantResult, error) {
	results := make([]locking.GrantResult, len(requests))
	byLock := make(resultsByLock, len(requests))
	for i, r := range requests {
		byLock[r.ID] = &results[i]
	}
	err := wrapLocks("grant", g.store.sendAgain(ctx, func(b *pgx.Batch, retry bool) {
		wanted, ids := grantsWanted(requests)
		names := allNames(wanted...)
		b.Queue(holdLiving, session, g.store.lockTimeout)
		b.Queue(refuse, append([]any{session},
			grantColumns(requests, owners, allIndexes(requests))...)...).Query(byLock.readBlockers)
		if add := g.store.fencesToAdd(names, retry); len(add) > 0 {
			b.Queue(addFences, add)
		}
		b.Queue(lockWaits, ids)
		queueWantedFences(b, ids, names, wanted)
		for _, wave := range waves(wanted) {
			b.Queue(grant, append([]any{session}, grantColumns(requests, owners, wave)...)...).
				Query(byLock.readBlockers)
		}
		b.Queue(grantOutcomes, session, ids).Query(byLock.readTokens)
		b.Queue(requireSession, session)
	}))
	if err != nil {
		return nil, err
	}
	return results, checkAnswered(requests, results)
}

// queueWantedFences locks the fences of the requests that were not refused, in one sorted pass.
func queueWantedFences(b *pgx.Batch, ids []rawID, names names, wanted [][]locking.Request) {
	by := map[string][]rawID{} // ids by the names that they want, and by their ancestors
	for i, requests := range wanted {
		for _, name := range allNames(requests) {
			by[name] = append(by[name], ids[i])
		}
	}
	for _, group := range fenceGroups(names, wanted) {
		var names []string
		var runs []rawID
		for _, name := range group.names {
			for _, id := range by[name] {
				names, runs = append(names, name), append(runs, id)
			}
		}
		if group.share {
			b.Queue(lockWantedShare, names, runs)
		} else {
			b.Queue(lockWantedAlone, names, runs)
		}
	}
}

// checkGrants refuses invalid calls: an id that occurs twice would be granted twice.
func checkGrants(requests []locking.GrantRequest) error {
	resources := 0
	seen := make(map[uuid.UUID]bool, len(requests))
	for _, r := range requests {
		resources += len(r.Requests)
		if seen[r.ID] {
			return fmt.Errorf("lock %s occurs twice in one call", r.ID)
		}
		seen[r.ID] = true
	}
	if resources > locking.MaxGrants {
		return fmt.Errorf("at most %d resources in one call, found %d", locking.MaxGrants,
			resources)
	}
	return checkBatch(len(requests))
}

// checkAnswered returns an error if another session has the claim of an id.
func checkAnswered(requests []locking.GrantRequest, results []locking.GrantResult) error {
	for i, r := range results {
		if r.Token == 0 && r.Blocker == nil {
			return fmt.Errorf("grant: lock %s belongs to another session", requests[i].ID)
		}
	}
	return nil
}

// encodeOwners returns the owners in their stored form. PostgreSQL accepts no NUL in a text, and
// one NUL would fail the whole batch.
func encodeOwners(requests []locking.GrantRequest) ([]string, error) {
	owners := make([]string, len(requests))
	for i, r := range requests {
		plain := locking.Owner{Replica: output.PlainText(r.Owner.Replica),
			Job: output.PlainText(r.Owner.Job), Run: output.PlainText(r.Owner.Run)}
		encoded, err := json.Marshal(plain)
		if err != nil {
			return nil, fmt.Errorf("owner of lock %s: %w", r.ID, err)
		}
		owners[i] = string(encoded)
	}
	return owners, nil
}

func grantsWanted(requests []locking.GrantRequest) ([][]locking.Request, []rawID) {
	wanted, ids := make([][]locking.Request, len(requests)), make([]rawID, len(requests))
	for i, r := range requests {
		wanted[i], ids[i] = r.Requests, r.ID
	}
	return wanted, ids
}

// grantColumns returns the columns of the requests at these indexes.
func grantColumns(requests []locking.GrantRequest, owners []string, indexes []int) []any {
	n := len(indexes)
	ids, mine, waits := make([]rawID, n), make([]string, n), make([]bool, n)
	wanted, reserves := make([][]locking.Request, n), make([]time.Duration, n)
	for i, index := range indexes {
		r := requests[index]
		ids[i], mine[i], waits[i], reserves[i], wanted[i] = r.ID, owners[index], r.Wait, r.Reserve,
			r.Requests
	}
	return append(append([]any{ids, mine, waits}, probeColumns(ids, wanted)...), reserves)
}

// resultsByLock maps the ids of locks to their results.
type resultsByLock map[uuid.UUID]*locking.GrantResult

func (p resultsByLock) readTokens(rows pgx.Rows) error {
	var id uuid.UUID
	var token locking.Token
	_, err := pgx.ForEachRow(rows, []any{&id, &token}, func() error {
		// a concurrent call with the same id has granted it
		*p[id] = locking.GrantResult{Token: token}
		return nil
	})
	return err
}

func (p resultsByLock) readBlockers(rows pgx.Rows) error {
	var id, holder *uuid.UUID
	var key, setting *string
	var owner *locking.Owner
	var since *time.Time
	var waiting *bool
	_, err := pgx.ForEachRow(rows, []any{&id, &holder, &key, &owner, &since, &waiting, &setting},
		func() error {
			if id == nil {
				return nil // no request was refused
			}
			resource, err := locking.ParseKey(*key)
			p[*id].Blocker = &locking.GrantBlocker{ID: *holder, Resource: resource, Holder: *owner,
				Since: since.UTC(), Waiting: *waiting}
			return err
		})
	return err
}
