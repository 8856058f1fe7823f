package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// recovers is whether the active definition recovers the run r, unless it was to be cancelled.
	recovers = `(SELECT d.recover FROM holdfast.definitions d WHERE d.job = r.job COLLATE "C"
        AND d.version = (SELECT j.version FROM holdfast.jobs j
            WHERE j.name = r.job COLLATE "C")) IS TRUE
        AND (SELECT true FROM holdfast.cancels c WHERE c.run = r.id) IS NULL`

	// addSuccessors continues a list "lost" of runs.
	addSuccessors = `
successors AS (
    INSERT INTO holdfast.runs (id, job, scheduled_at, key, recovery, state, created_at, reason,
        params, key_actor, backfill, detail)
    SELECT gen_random_uuid(), r.job, r.scheduled_at, r.key, r.recovery + 1, 'waiting',
        clock_timestamp(), r.reason, r.params, r.key_actor, r.backfill,
        'recovers run ' || r.id || ', lost on replica ' || r.replica
    FROM lost r WHERE r.recovery < $1 AND ` + recovers + `
        ORDER BY r.job, r.scheduled_at, r.key, r.recovery
    ON CONFLICT DO NOTHING RETURNING id
)`

	// recoverRuns may be repeated: a firing has one successor of each number.
	recoverRuns = `
WITH lost AS (
    SELECT id, job, scheduled_at, key, recovery, replica, reason, params, key_actor,
        backfill FROM holdfast.runs
        WHERE id = ANY($3) AND state = 'lost'
), last AS (
    UPDATE holdfast.runs r SET detail = r.detail || $2
    WHERE r.id = ANY($3) AND r.state = 'lost' AND r.recovery >= $1
        AND right(r.detail, length($2)) <> $2 AND ` + recovers + `
), ` + addSuccessors + `
INSERT INTO holdfast.waits (run, since) SELECT id, clock_timestamp() FROM successors`
)

// queueRecovery adds the successors of lost runs to a batch that finishes runs.
func queueRecovery(b *pgx.Batch, requests []storage.FinishRequest) {
	var lost []rawID
	for _, r := range requests {
		if r.State == jobs.Lost {
			lost = append(lost, r.Run)
		}
	}
	if len(lost) > 0 {
		b.Queue(recoverRuns, storage.MaxRecoveries, storage.NotRecovered, lost)
	}
}
