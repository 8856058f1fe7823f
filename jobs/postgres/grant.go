package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	// lockPlaces keeps a withdrawal of the same locks out until the end, and
	// has both wait for each other in one direction.
	lockPlaces = `SELECT FROM holdfast.waits WHERE run = ANY($1) ORDER BY run FOR UPDATE`

	// grant decides, by the rule of conflicts, on locks of which no two want
	// related resources. One that has its claim is not decided on again. One
	// that has no place among the waiting is younger than all that have.
	grant = `
WITH mine AS (
    SELECT q.run, coalesce(w.since, 'infinity') AS since, q.owner, q.waits
    FROM unnest($2::uuid[], $3::jsonb[], $4::bool[]) AS q (run, owner, waits)
    LEFT JOIN LATERAL (SELECT w.since FROM holdfast.waits w WHERE w.run = q.run OFFSET 0) w ON true
    LEFT JOIN LATERAL (SELECT true AS stands FROM holdfast.claims c WHERE c.run = q.run OFFSET 0) c ON true
    WHERE c.stands IS NULL
), ` + conflicts + `, granted AS (
    INSERT INTO holdfast.claims (token, run, session, owner, granted_at)
    SELECT nextval('holdfast.tokens'), m.run, $1, m.owner, clock_timestamp()
    FROM mine m WHERE NOT EXISTS (SELECT FROM blocked b WHERE b.run = m.run)
    ON CONFLICT (run) DO NOTHING RETURNING token, run
), new_grants AS (
    INSERT INTO holdfast.grants (resource, token, mode, slots)
    SELECT p.name, g.token, p.mode, p.slots FROM granted g JOIN probe p USING (run) WHERE p.own
), ended_waits AS (
    DELETE FROM holdfast.waits w WHERE w.run = ANY(ARRAY(SELECT run FROM granted))
), ended_wants AS (
    DELETE FROM holdfast.wants w WHERE w.run = ANY(ARRAY(SELECT run FROM granted))
), new_waits AS (
    INSERT INTO holdfast.waits (run, session, since, owner)
    SELECT b.run, $1, clock_timestamp(), m.owner FROM blocked b JOIN mine m USING (run) WHERE m.waits
    ON CONFLICT (run) DO NOTHING RETURNING run
), new_wants AS (
    INSERT INTO holdfast.wants (resource, run, mode, slots)
    SELECT p.name, p.run, p.mode, p.slots FROM new_waits n JOIN probe p USING (run) WHERE p.own
)
SELECT run, holder_id, resource, holder, holder_since, waiting FROM blocked`

	// grantOutcomes reads the claims, of now or of an earlier try whose reply
	// was lost, or which is only just being answered.
	grantOutcomes = `SELECT c.run, c.token FROM holdfast.claims c WHERE c.run = ANY($2) AND c.session = $1`
)

// Grant decides on each request in one round trip.
func (g grants) Grant(ctx context.Context, session uuid.UUID, requests []locking.GrantRequest) ([]locking.GrantResult, error) {
	if err := checkGrants(requests); err != nil {
		return nil, fmt.Errorf("grant: %w", err)
	}
	owners, err := encodeOwners(requests)
	if err != nil {
		return nil, fmt.Errorf("grant: %w", err)
	}
	results := make([]locking.GrantResult, len(requests))
	places := make(grantPlaces, len(requests))
	for i, r := range requests {
		places[r.ID] = &results[i]
	}
	err = g.pipeline(ctx, "grant", func(b *pgx.Batch) {
		wanted, ids := grantsWanted(requests)
		all := slices.Concat(wanted...)
		b.Queue(joinByHash)
		b.Queue(holdLiving, session)
		b.Queue(addFences, fenceNames(all))
		b.Queue(lockPlaces, ids)
		queueFences(b, all)
		for _, wave := range waves(wanted) {
			columns := grantColumns(requests, owners, wave)
			b.Queue(grant, append([]any{session}, columns...)...).Query(places.readBlockers)
		}
		b.Queue(grantOutcomes, session, ids).Query(places.readTokens)
		b.Queue(requireSession, session)
	})
	if err != nil {
		return nil, err
	}
	return results, checkAnswered(requests, results)
}

// checkGrants refuses what no caller may send: an id twice would be granted
// twice.
func checkGrants(requests []locking.GrantRequest) error {
	resources := 0
	seen := make(map[uuid.UUID]bool, len(requests))
	for _, r := range requests {
		resources += len(r.Requests)
		if seen[r.ID] {
			return fmt.Errorf("lock %s is asked for twice in one call", r.ID)
		}
		seen[r.ID] = true
	}
	if resources > locking.MaxGrants {
		return fmt.Errorf("at most %d resources in one call, found %d", locking.MaxGrants, resources)
	}
	return checkBatch(len(requests))
}

// checkAnswered reports an id that another session has a claim for.
func checkAnswered(requests []locking.GrantRequest, results []locking.GrantResult) error {
	for i, r := range results {
		if r.Token == 0 && r.Blocker == nil {
			return fmt.Errorf("grant: lock %s belongs to another session", requests[i].ID)
		}
	}
	return nil
}

// encodeOwners returns the owners as they are stored. PostgreSQL takes no NUL
// in a text, and one would fail the whole batch.
func encodeOwners(requests []locking.GrantRequest) ([]string, error) {
	owners := make([]string, len(requests))
	for i, r := range requests {
		plain := locking.Owner{Replica: jobs.PlainText(r.Owner.Replica), Job: jobs.PlainText(r.Owner.Job), Run: jobs.PlainText(r.Owner.Run)}
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

// grantColumns are the columns of the requests at these places.
func grantColumns(requests []locking.GrantRequest, owners []string, places []int) []any {
	n := len(places)
	ids, mine, waits := make([]rawID, n), make([]string, n), make([]bool, n)
	wanted := make([][]locking.Request, n)
	for i, place := range places {
		r := requests[place]
		ids[i], mine[i], waits[i], wanted[i] = r.ID, owners[place], r.Wait, r.Requests
	}
	return append([]any{ids, mine, waits}, probeColumns(ids, wanted)...)
}

// grantPlaces are the results by the ids of their locks.
type grantPlaces map[uuid.UUID]*locking.GrantResult

func (p grantPlaces) readTokens(rows pgx.Rows) error {
	var id uuid.UUID
	var token locking.Token
	_, err := pgx.ForEachRow(rows, []any{&id, &token}, func() error {
		p[id].Token = token
		return nil
	})
	return err
}

func (p grantPlaces) readBlockers(rows pgx.Rows) error {
	var id uuid.UUID
	var key string
	var b locking.GrantBlocker
	_, err := pgx.ForEachRow(rows, []any{&id, &b.ID, &key, &b.Holder, &b.Since, &b.Waiting}, func() (err error) {
		found := b
		found.Since = b.Since.UTC()
		found.Resource, err = locking.ParseKey(key)
		p[id].Blocker = &found
		return err
	})
	return err
}
