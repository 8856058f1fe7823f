package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// Transactions that change the same jobs of sessions, and with them the active definitions,
	// exclude each other. Otherwise two sessions that end at once would each count the definitions
	// of the other as those of a live session. The locks come before all rows of jobs.
	lockDefinitions = `SELECT pg_advisory_xact_lock(hashtextextended('holdfast definitions ' || $1,
		0))`

	// lockHalf is lockDefinitions for a registration, which has jobs of one half only. All replicas
	// must agree on the halves: see halfOf.
	lockHalf = `
SELECT pg_advisory_xact_lock_shared(hashtextextended('holdfast definitions ' || $1, 0)),
    pg_advisory_xact_lock(hashtextextended('holdfast definitions ' || $1 || ' ' || $2::int, 0))`

	// The subscriptions of a definition never change: its hash covers them.
	addSubscriptions = `
INSERT INTO holdfast.subscriptions (job, state, version, webhook)
SELECT d.job, h.state, d.version, h.webhook
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS h (job, hash, state, webhook)
CROSS JOIN LATERAL (
    SELECT d.job, d.version FROM holdfast.definitions d
        WHERE d.job = h.job COLLATE "C" AND d.hash = h.hash COLLATE "C" OFFSET 0) d
ORDER BY 1, 2, 3, 4
ON CONFLICT DO NOTHING`

	// registerJobs adds the definitions that do not exist, updates the description and the source
	// of the others if they differ, and adds the jobs of the session. It returns the version of
	// each definition.
	//
	// All transactions that add, change or delete definitions of a job exclude each other. So
	// versions and places (ctid) of rows, once read, remain valid until the end of the
	// transaction.
	//
	// The condition on (job, hash) is true for each row that the two equations select. It makes
	// the planner use the primary key. With the index of versions, the statement would read all
	// definitions of the job.
	//
	// A session that ends meanwhile is settled after this statement: its end waits for
	// lockDefinitions, and a sweep settles the rest. No session gets a removed job, even if its
	// replica does not know of the removal yet.
	registerJobs = `
WITH given AS MATERIALIZED (
    SELECT d.*, o.version IS NULL AS added, o.same, o.place, coalesce(o.version,
        1 + (SELECT max(n.version) FROM holdfast.definitions n WHERE n.job = d.job COLLATE "C"),
        1) AS version
    FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::jsonb[],
        $8::boolean[], $9::text[], $10::text[], $11::int[], $12::text[], $13::text[], $14::jsonb[],
        $15::boolean[])
        AS d (job, hash, schedule, zone, handler, resources, recover, description, job_group,
            priority, source, fingerprint, after, may_overlap)
    LEFT JOIN LATERAL (
        SELECT o.version, o.ctid AS place,
            (o.description, o.source) = (d.description, d.source) AS same
        FROM holdfast.definitions o
        WHERE o.job = d.job COLLATE "C" AND o.hash = d.hash COLLATE "C"
            AND (o.job, o.hash) >= (d.job COLLATE "C", d.hash COLLATE "C") OFFSET 0) o ON true
), described AS (
    UPDATE holdfast.definitions o SET description = g.description, source = g.source
    FROM given g WHERE NOT g.same AND o.ctid = g.place
), new AS (
    INSERT INTO holdfast.definitions (job, hash, version, schedule, zone, handler, resources,
        recover, description, job_group, priority, source, fingerprint, after, may_overlap)
    SELECT job, hash, version, schedule, zone, handler, resources, recover, description, job_group,
        priority, source, fingerprint,
        CASE WHEN after = '[]' THEN '{}' ELSE ARRAY(SELECT jsonb_array_elements_text(after)) END,
        may_overlap
    FROM given WHERE added ORDER BY job COLLATE "C"
), had AS (
    INSERT INTO holdfast.session_jobs (session, job, version)
    SELECT s.id, g.job, g.version FROM given g
    JOIN holdfast.sessions s ON s.id = $1 AND s.ended_at IS NULL
        AND s.expires_at > clock_timestamp()
    WHERE g.source = 'config' OR (SELECT p.removed FROM holdfast.specs p
        WHERE p.job = g.job COLLATE "C") IS NOT TRUE
    ORDER BY g.job COLLATE "C"
    ON CONFLICT (session, job) DO UPDATE SET version = excluded.version
)
SELECT job, version FROM given`

	// activateDefinitions continues a list "resolved" of jobs, each with the newest version that a
	// session has, or with the active version and the time since which no session has the job. Rows
	// of jobs are locked in the order of their names. The cursor moves only if the scheduled times
	// change, or if an absent job returns: otherwise a deploy would skip scheduled times that no
	// replica has started yet.
	activateDefinitions = `
changed AS (
    INSERT INTO holdfast.jobs AS j (name, version, checked_until, updated_at, left_at)
    SELECT c.job, c.version, t, t, c.left_at FROM resolved c, clock_timestamp() t
    WHERE c.left_at IS NOT NULL OR (
        SELECT j.version = c.version AND (j.left_at IS NULL OR j.back_at IS NOT NULL)
            FROM holdfast.jobs j WHERE j.name = c.job COLLATE "C") IS NOT TRUE
    ORDER BY c.job COLLATE "C"
    ON CONFLICT (name) DO UPDATE SET version = excluded.version,
        updated_at = CASE WHEN excluded.left_at IS NULL
            AND (j.version <> excluded.version OR ` + wasAbsent + `)
            THEN excluded.updated_at ELSE j.updated_at END,
        left_at = coalesce(excluded.left_at, j.left_at),
        back_at = CASE WHEN excluded.left_at IS NULL
            AND j.left_at IS NOT NULL THEN coalesce(j.back_at, excluded.updated_at) END,
        checked_until = CASE WHEN excluded.left_at IS NOT NULL OR ` + sameScheduledTimes + `
            AND NOT ` + wasAbsent + `
            THEN j.checked_until ELSE greatest(j.checked_until, excluded.checked_until) END
    RETURNING left_at IS NULL OR back_at IS NOT NULL AS present
)
UPDATE holdfast.meta SET definitions = definitions + 1
    WHERE one AND EXISTS (SELECT FROM changed WHERE changed.present)`

	sameScheduledTimes = `(j.version = excluded.version OR (SELECT n.zone = o.zone
		AND CASE WHEN '' IN (n.fingerprint, o.fingerprint) THEN n.schedule = o.schedule
			ELSE n.fingerprint = o.fingerprint END
            FROM holdfast.definitions o JOIN holdfast.definitions n ON n.job = o.job
            WHERE o.job = j.name AND o.version = j.version
                AND n.version = excluded.version) IS TRUE)`

	// wasAbsent: no session had the job for longer than $1, which is storage.MaxAbsence, while a
	// session without it was live.
	wasAbsent = `(j.left_at IS NOT NULL AND j.back_at IS NULL AND EXISTS (
            SELECT FROM holdfast.sessions s WHERE NOT s.locks
                AND s.started_at < now() - $1::interval
                AND s.renewed_at - greatest(s.started_at, j.left_at) > $1::interval))`

	activateRegistered = `
WITH resolved AS (
    SELECT r.job, c.version, NULL::timestamptz AS left_at FROM unnest($2::text[]) AS r (job)
    CROSS JOIN LATERAL (
        SELECT c.version FROM holdfast.session_jobs c WHERE c.job = r.job COLLATE "C"
            ORDER BY c.version DESC LIMIT 1) c
), ` + activateDefinitions

	// unsettled finds sessions that have ended, or that a sweep has found expired and is ending.
	// Neither revives.
	unsettled = `SELECT id FROM holdfast.sessions s
		WHERE (s.ended_at IS NOT NULL OR s.sweep IS NOT NULL) AND ` + hasJobs
	// hasJobs looks for the first job of this or a later session. With an equation the planner
	// scans all rows, because it expects that one of the first has the session. An ended session
	// has none.
	hasJobs = `((SELECT c.session FROM holdfast.session_jobs c WHERE c.session >= s.id
		ORDER BY c.session, c.job LIMIT 1) = s.id) IS TRUE`

	// The condition on (session, job) is true for all jobs of the session. It makes the planner use
	// the primary key even if the table had only one row when it was last analyzed.
	settleSession = `
WITH gone AS (
    DELETE FROM holdfast.session_jobs WHERE session = $2 AND (session, job) >= ($2, '')
    RETURNING job
), resolved AS (
    SELECT g.job, coalesce(c.version, j.version) AS version,
        CASE WHEN c.version IS NULL THEN (SELECT s.renewed_at FROM holdfast.sessions s
            WHERE s.id = $2) END AS left_at
    FROM gone g
    CROSS JOIN LATERAL (SELECT j.version FROM holdfast.jobs j WHERE j.name = g.job OFFSET 0) j
    LEFT JOIN LATERAL (
        SELECT c.version FROM holdfast.session_jobs c WHERE c.job = g.job AND c.session <> $2
            ORDER BY c.version DESC LIMIT 1) c ON true
), ` + activateDefinitions

	// withdrawJobs is settleSession for some jobs of a session that remains live.
	withdrawJobs = `
WITH gone AS (
    DELETE FROM holdfast.session_jobs WHERE session = $2 AND job = ANY($3::text[]) RETURNING job
), resolved AS (
    SELECT g.job, coalesce(c.version, j.version) AS version,
        CASE WHEN c.version IS NULL THEN clock_timestamp() END AS left_at
    FROM gone g
    CROSS JOIN LATERAL (SELECT j.version FROM holdfast.jobs j WHERE j.name = g.job OFFSET 0) j
    LEFT JOIN LATERAL (
        SELECT c.version FROM holdfast.session_jobs c WHERE c.job = g.job AND c.session <> $2
            ORDER BY c.version DESC LIMIT 1) c ON true
), ` + activateDefinitions

	noteTable = `UPDATE holdfast.sessions SET config_hash = $2
		WHERE id = $1 AND ended_at IS NULL AND config_hash <> $2`

	activeDefinitions = `SELECT name, version, checked_until FROM holdfast.jobs`
)

// Register implements storage.Sessions.
func (s *Store) Register(ctx context.Context, session uuid.UUID,
	definitions []storage.Definition) (map[string]int64, error) {
	var byHalf [halves][]*storage.Definition
	for i := range definitions {
		half := halfOf(definitions[i].Name)
		byHalf[half] = append(byHalf[half], &definitions[i])
	}
	var versions [halves]map[string]int64
	all, ctx := errgroup.WithContext(ctx)
	for half, its := range byHalf {
		versions[half] = make(map[string]int64, len(its))
		all.Go(func() error {
			slices.SortFunc(its, func(a, b *storage.Definition) int {
				return strings.Compare(a.Name, b.Name)
			})
			for chunk := range slices.Chunk(its, storage.MaxBatch) {
				if err := s.registerChunk(ctx, session, half, chunk, versions[half]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	for _, its := range versions[1:] {
		maps.Copy(versions[0], its)
	}
	return versions[0], nil
}

// halves is the number of parts of the jobs that are registered concurrently.
const halves = 2

// halfOf returns the half of a job. It is part of the protocol.
func halfOf(job string) int { return int(crc32.ChecksumIEEE([]byte(job)) % halves) }

// registerChunk registers definitions of one half, in the order of their names.
func (s *Store) registerChunk(ctx context.Context, session uuid.UUID, half int,
	chunk []*storage.Definition, versions map[string]int64) error {
	columns, err := definitionColumns(chunk)
	if err != nil {
		return err
	}
	var live bool
	err = s.pipeline(ctx, "register jobs", func(b *pgx.Batch) {
		b.Queue(lockHalf, s.cluster.String(), half)
		b.Queue(registerJobs, append([]any{session}, columns...)...).
			Query(func(rows pgx.Rows) error {
				var name string
				var version int64
				_, err := pgx.ForEachRow(rows, []any{&name, &version}, func() error {
					versions[name] = version
					return nil
				})
				return err
			})
		queueSubscriptions(b, chunk)
		b.Queue(sessionLives, session).Exec(func(tag pgconn.CommandTag) error {
			live = tag.RowsAffected() > 0
			return nil
		})
		// It comes last: it locks the row of meta, for which the other half waits.
		b.Queue(activateRegistered, storage.MaxAbsence, columns[0])
	})
	if err == nil && !live {
		err = wrap("register jobs", storage.ErrSessionLost)
	}
	return err
}

func definitionColumns(definitions []*storage.Definition) ([]any, error) {
	n := len(definitions)
	names, hashes, schedules, zones := make([]string, n), make([]string, n), make([]string, n),
		make([]string, n)
	handlers, resources, recovers, descriptions := make([]string, n), make([]string, n),
		make([]bool, n), make([]string, n)
	groups, priorities, sources, fingerprints := make([]string, n), make([]int, n),
		make([]string, n), make([]string, n)
	afters, overlaps := make([]string, n), make([]bool, n)
	for i, d := range definitions {
		after, err := json.Marshal(append([]string{}, d.After...))
		if err != nil {
			return nil, fmt.Errorf("job %s: after: %w", d.Name, err)
		}
		encoded, err := json.Marshal(storedRequests(d.Resources))
		if err != nil {
			return nil, fmt.Errorf("job %s: resources: %w", d.Name, err)
		}
		names[i], hashes[i], schedules[i], zones[i] = d.Name, d.Hash, d.Schedule, d.Zone
		handlers[i], resources[i], recovers[i], descriptions[i] = d.Handler, string(encoded),
			d.Recover, d.Description
		groups[i], priorities[i], sources[i] = d.Group, cmp.Or(d.Priority, 5),
			string(cmp.Or(d.Source, storage.FromConfig))
		fingerprints[i], afters[i], overlaps[i] = d.Fingerprint, string(after), d.MayOverlap
	}
	return []any{names, hashes, schedules, zones, handlers, resources, recovers, descriptions,
		groups, priorities, sources, fingerprints, afters,
		overlaps}, nil
}

// settle removes the jobs of a session that has ended or been found expired, and activates the
// newest definitions of the remaining sessions. It does nothing for a settled session.
func (s *Store) settle(ctx context.Context, session uuid.UUID) error {
	return s.pipeline(ctx, "settle ended session", func(b *pgx.Batch) {
		b.Queue(lockDefinitions, s.cluster.String())
		b.Queue(settleSession, storage.MaxAbsence, session)
	})
}

// Withdraw implements storage.Sessions.
func (s *Store) Withdraw(ctx context.Context, session uuid.UUID, table string,
	names []string) error {
	for chunk := range slices.Chunk(slices.Sorted(slices.Values(names)), storage.MaxBatch) {
		err := s.pipeline(ctx, "withdraw jobs", func(b *pgx.Batch) {
			b.Queue(lockDefinitions, s.cluster.String())
			b.Queue(withdrawJobs, storage.MaxAbsence, session, chunk)
		})
		if err != nil {
			return err
		}
	}
	_, err := s.pool.Exec(ctx, noteTable, session, table)
	return wrap("withdraw jobs", err)
}

// Versions implements storage.Sessions.
func (s *Store) Versions(ctx context.Context) (map[string]storage.ActiveDefinition, error) {
	rows, err := s.pool.Query(ctx, activeDefinitions)
	if err != nil {
		return nil, wrap("list active definitions", err)
	}
	versions := map[string]storage.ActiveDefinition{}
	var name string
	var now storage.ActiveDefinition
	_, err = pgx.ForEachRow(rows, []any{&name, &now.Version, &now.CheckedUntil}, func() error {
		now.CheckedUntil = now.CheckedUntil.UTC()
		versions[name] = now
		return nil
	})
	return versions, wrap("list active definitions", err)
}
