package postgres

import (
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// startNew inserts new firings as running runs, each with its claim and its grants. It leaves out a
// firing that may not start now: another run has it, its job is paused or has another active
// definition, or a conflict refuses it. It returns the token of each run that it has started, and
// NULL for a firing that another run has. No two of the firings want related resources.
const startNew = `
WITH alive AS MATERIALIZED (
    SELECT s.id, s.replica FROM holdfast.sessions s WHERE s.id = $1 AND s.ended_at IS NULL
        AND s.expires_at > clock_timestamp() AND NOT s.draining
), ` + pausedJobs + `, mine AS (
    SELECT q.run, q.job, q.scheduled_at, q.recovery, q.since, q.place, NULL::uuid AS backfill
    FROM unnest($3::uuid[], $2::text[], $4::timestamptz[], $11::int[], $12::bigint[],
        $13::timestamptz[]) WITH ORDINALITY AS q (run, job, scheduled_at, recovery, version,
        since, place)
    WHERE EXISTS (SELECT FROM alive) AND q.job NOT IN (SELECT job FROM paused)
        AND (SELECT q.version > 0 AND j.version <> q.version FROM holdfast.jobs j
            WHERE j.name = q.job COLLATE "C") IS NOT TRUE
), ` + conflicts + `, started AS (
    INSERT INTO holdfast.runs (id, job, scheduled_at, recovery, attempt, state, session, replica,
        token, created_at, started_at)
    SELECT m.run, m.job, m.scheduled_at, m.recovery, 1, 'running', a.id, a.replica,
        nextval('holdfast.tokens'), clock_timestamp(), clock_timestamp()
    FROM mine m CROSS JOIN alive a WHERE NOT EXISTS (SELECT FROM blocked b WHERE b.run = m.run)
    ORDER BY m.job COLLATE "C", m.scheduled_at, m.recovery, m.place
    ON CONFLICT DO NOTHING RETURNING id AS run, token
), granted AS (
    INSERT INTO holdfast.claims (token, run, session, granted_at)
    SELECT token, run, $1, clock_timestamp() FROM started RETURNING token, run
), ` + raiseFloors + `, new_grants AS (
    INSERT INTO holdfast.grants (resource, token, mode, slots)
    SELECT p.name, g.token, p.mode, p.slots FROM granted g JOIN probe p USING (run) WHERE p.own
)
SELECT run, token FROM started UNION ALL
SELECT m.run, NULL FROM mine m WHERE m.run NOT IN (SELECT run FROM started)
    AND (SELECT true FROM holdfast.runs r WHERE r.job = m.job COLLATE "C"
        AND r.scheduled_at = m.scheduled_at AND r.recovery = m.recovery AND r.key = ''
        AND r.id <> m.run)`

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

func newColumns(requests []storage.StartRequest) []any {
	n := len(requests)
	ids, names, scheduledTimes := make([]rawID, n), make([]string, n), make([]time.Time, n)
	recoveries, versions, sinces := make([]int, n), make([]int64, n), make([]time.Time, n)
	for i, r := range requests {
		ids[i], names[i], scheduledTimes[i] = r.Run, r.Firing.Job, r.Firing.ScheduledAt
		recoveries[i], versions[i], sinces[i] = r.Firing.Recovery, r.Version, r.WaitSince
	}
	columns := append([]any{names, ids, scheduledTimes}, probeColumns(ids, wantedBy(requests))...)
	return append(columns, recoveries, versions, sinces)
}

func (a resultsByRun) readNew(rows pgx.Rows) error {
	var run uuid.UUID
	var token *jobs.Token
	_, err := pgx.ForEachRow(rows, []any{&run, &token}, func() error {
		if token == nil {
			*a[run] = storage.StartResult{Outcome: storage.StartDuplicate}
			return nil
		}
		*a[run] = storage.StartResult{Outcome: storage.StartGranted, Token: *token}
		return nil
	})
	return err
}
