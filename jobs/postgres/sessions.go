package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	// A session that succeeds others of its name has them expire, but only as
	// it is written: a resent request must not end what was opened since.
	openSession = `
WITH opened AS (
    INSERT INTO holdfast.sessions (id, replica, version, ttl, started_at, renewed_at, expires_at, locks)
    SELECT $1, $2, $3, $4, t, t, t + $4, $5 FROM clock_timestamp() t
    ON CONFLICT (id) DO NOTHING RETURNING id
)
UPDATE holdfast.sessions SET expires_at = clock_timestamp() WHERE $6 AND id IN (
    SELECT s.id FROM holdfast.sessions s
    WHERE s.replica = $2 AND s.locks = $5 AND s.ended_at IS NULL AND s.expires_at > clock_timestamp() AND EXISTS (SELECT FROM opened)
    ORDER BY s.id FOR NO KEY UPDATE)`

	// Conditional: without it a paused replica would revive a session whose
	// runs another has already taken over.
	renewSession = `
UPDATE holdfast.sessions SET renewed_at = t, expires_at = t + ttl FROM clock_timestamp() t
WHERE id = $1 AND ended_at IS NULL AND expires_at > clock_timestamp()
RETURNING renewed_at`

	sessionClaims = `SELECT token, run FROM holdfast.claims WHERE session = $1`

	// FOR UPDATE waits for starts under way, which hold it FOR KEY SHARE.
	lockSession = `SELECT FROM holdfast.sessions WHERE id = $1 AND ended_at IS NULL FOR UPDATE`

	// With claims left it only expires, so that a sweep takes them back.
	endSession = `
UPDATE holdfast.sessions SET
    expires_at = least(expires_at, clock_timestamp()),
    ended_at = CASE WHEN EXISTS (SELECT FROM holdfast.claims WHERE session = $1) THEN NULL ELSE clock_timestamp() END
WHERE id = $1 AND ended_at IS NULL`

	// Nothing of an ended session can be under way: whoever is first may have
	// what it waited for.
	freeWaits = `UPDATE holdfast.waits SET session = NULL WHERE session = $1 AND owner IS NULL`

	upsertJobs = `
INSERT INTO holdfast.jobs AS j (name, version, hash, schedule, zone, handler, resources, description, checked_until, updated_at)
SELECT name, 1, hash, schedule, zone, handler, resources, description, t, t
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::jsonb[], $7::text[])
     AS d (name, hash, schedule, zone, handler, resources, description), clock_timestamp() t
ORDER BY name COLLATE "C"
ON CONFLICT (name) DO UPDATE SET
    version = j.version + 1, hash = excluded.hash, schedule = excluded.schedule, zone = excluded.zone, handler = excluded.handler,
    resources = excluded.resources, description = excluded.description,
    checked_until = greatest(j.checked_until, excluded.checked_until), updated_at = excluded.updated_at
WHERE j.hash <> excluded.hash`

	jobVersions = `SELECT name, version FROM holdfast.jobs`
)

// Open registers a session.
func (s *Store) Open(ctx context.Context, session jobs.Session) error {
	_, err := s.pool.Exec(ctx, openSession, openColumns(session, false)...)
	return wrap("session opening", err)
}

// openColumns are a session that has locks, or one that has runs.
func openColumns(session jobs.Session, locks bool) []any {
	return []any{session.ID, session.Replica, session.Version, session.TTL, locks, session.Succeeds}
}

// Heartbeat renews a session and returns its claims.
func (s *Store) Heartbeat(ctx context.Context, session uuid.UUID) (jobs.Beat, error) {
	beat := jobs.Beat{Claims: map[jobs.Token]uuid.UUID{}}
	err := s.pipeline(ctx, "heartbeat", func(b *pgx.Batch) { queueHeartbeat(b, session, &beat.Now, beat.Claims) })
	return beat, err
}

// queueHeartbeat adds the renewal of a session, which fails with
// ErrSessionLost, and the look at its claims.
func queueHeartbeat(b *pgx.Batch, session uuid.UUID, now *time.Time, claims map[jobs.Token]uuid.UUID) {
	b.Queue(renewSession, session).QueryRow(func(row pgx.Row) error {
		if err := row.Scan(now); err == pgx.ErrNoRows {
			return jobs.ErrSessionLost
		} else {
			return err
		}
	})
	b.Queue(sessionClaims, session).Query(func(rows pgx.Rows) error {
		var token jobs.Token
		var run uuid.UUID
		_, err := pgx.ForEachRow(rows, []any{&token, &run}, func() error {
			claims[token] = run
			return nil
		})
		return err
	})
}

// End ends a session.
func (s *Store) End(ctx context.Context, session uuid.UUID) error {
	return s.pipeline(ctx, "session end", func(b *pgx.Batch) {
		b.Queue(lockSession, session)
		b.Queue(endSession, session)
		b.Queue(freeWaits, session)
	})
}

// Register writes definitions and the fences of what they lock.
func (s *Store) Register(ctx context.Context, definitions []jobs.Definition) (map[string]int64, error) {
	for chunk := range slices.Chunk(slices.SortedFunc(slices.Values(definitions), func(a, b jobs.Definition) int {
		return strings.Compare(a.Name, b.Name)
	}), jobs.MaxBatch) {
		rows, err := definitionColumns(chunk)
		if err != nil {
			return nil, err
		}
		err = s.pipeline(ctx, "job registration", func(b *pgx.Batch) {
			b.Queue(addFences, fencesOf(chunk))
			b.Queue(upsertJobs, rows...)
		})
		if err != nil {
			return nil, err
		}
	}
	return s.Versions(ctx)
}

func definitionColumns(definitions []jobs.Definition) ([]any, error) {
	var names, hashes, schedules, zones, handlers, resources, descriptions []string
	for _, d := range definitions {
		encoded, err := json.Marshal(storedRequests(d.Resources))
		if err != nil {
			return nil, fmt.Errorf("job %s: resources: %w", d.Name, err)
		}
		names, hashes, schedules = append(names, d.Name), append(hashes, d.Hash), append(schedules, d.Schedule)
		zones, handlers = append(zones, d.Zone), append(handlers, d.Handler)
		resources, descriptions = append(resources, string(encoded)), append(descriptions, d.Description)
	}
	return []any{names, hashes, schedules, zones, handlers, resources, descriptions}, nil
}

func fencesOf(definitions []jobs.Definition) []string {
	var requests []locking.Request
	for _, d := range definitions {
		requests = append(requests, d.Resources...)
	}
	return fenceNames(requests)
}

// Versions returns every job's version.
func (s *Store) Versions(ctx context.Context) (map[string]int64, error) {
	rows, err := s.pool.Query(ctx, jobVersions)
	if err != nil {
		return nil, wrap("job versions", err)
	}
	versions := map[string]int64{}
	var name string
	var version int64
	_, err = pgx.ForEachRow(rows, []any{&name, &version}, func() error {
		versions[name] = version
		return nil
	})
	return versions, wrap("job versions", err)
}

// Now returns PostgreSQL's clock.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	err = s.pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now)
	return now.UTC(), wrap("clock", err)
}
