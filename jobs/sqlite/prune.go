package sqlite

import (
	"context"
	"database/sql"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	oldRuns = `
SELECT id, created_at FROM holdfast_runs WHERE created_at < ?1 AND (created_at, id) > (?2, ?3)
    ORDER BY created_at, id LIMIT ?4`

	// It retains the following runs:
	//   - A run after its job's cursor. Without it the scheduled time would count as not started.
	//   - A run after the cursor of a dependent that a session has, which may be paused. Without it
	//     the dependent would never handle the firing.
	//   - A run with pending webhook deliveries.
	//   - The last ended run of each job, which may be due only once a year.
	//
	// It deletes all rows that belong to a run.
	pruneRuns = `
WITH dependencies AS MATERIALIZED (
    SELECT a.value AS name, min(j.checked_until) AS until
    FROM holdfast_definitions d CROSS JOIN json_each(d.after) a
    JOIN holdfast_jobs j ON j.name = d.job AND j.version = d.version
    WHERE d.after <> '[]' AND EXISTS (SELECT 1 FROM holdfast_session_jobs c
        WHERE c.job = d.job AND c.version = d.version)
    GROUP BY a.value
)
DELETE FROM holdfast_runs AS r WHERE id IN (SELECT value FROM json_each(?1))
    AND state NOT IN ('waiting', 'running')
    AND coalesce(finished_at, created_at) < ?2
    AND (key <> '' OR coalesce((SELECT scheduled_at <= j.checked_until FROM holdfast_jobs j
        WHERE j.name = r.job), 1))
    AND (key <> '' OR coalesce((SELECT r.scheduled_at <= f.until FROM dependencies f
        WHERE f.name = r.job), 1))
    AND NOT EXISTS (SELECT 1 FROM holdfast_deliveries d WHERE d.run = r.id)
    AND EXISTS (SELECT 1 FROM holdfast_runs y
        WHERE y.job = r.job AND (y.created_at, y.id) > (r.created_at, r.id)
            AND y.state NOT IN ('waiting', 'running'))
RETURNING id`

	// triggeredRuns retains the same runs as pruneRuns.
	triggeredRuns = `
SELECT r.id FROM holdfast_jobs j
CROSS JOIN holdfast_runs r INDEXED BY holdfast_runs_by_trigger
    ON r.job = j.name AND r.key <> '' AND r.backfill IS NULL AND r.scheduled_at < ?1
WHERE r.state NOT IN ('waiting', 'running')
    AND coalesce(r.finished_at, r.created_at) < ?1
    AND NOT EXISTS (SELECT 1 FROM holdfast_deliveries d WHERE d.run = r.id)
    AND EXISTS (SELECT 1 FROM holdfast_runs y
        WHERE y.job = r.job AND (y.created_at, y.id) > (r.created_at, r.id)
            AND y.state NOT IN ('waiting', 'running'))
LIMIT ?2`

	pruneTriggered = `DELETE FROM holdfast_runs WHERE id IN (SELECT value FROM json_each(?1))`

	pruneOutputs = `DELETE FROM holdfast_outputs WHERE run IN (SELECT value FROM json_each(?1))`

	// oldLinks are the beginning of the chain, which ends with the last old link before the first
	// young one. A link whose time is ahead of the clock is neither old nor young, so that it does
	// not keep later links.
	oldLinks = `
WITH links AS (SELECT seq, entry, at, hash FROM holdfast_audit_links ORDER BY seq LIMIT ?2)
SELECT seq, entry, hash FROM links
WHERE seq <= (SELECT max(seq) FROM links WHERE at < ?1 AND seq < coalesce(
    (SELECT min(seq) FROM links WHERE at >= ?1 AND at <= ?3), 9223372036854775807))
ORDER BY seq`

	// An entry with a link is deleted only with its link.
	oldUnlinked = `
WITH old AS (SELECT id FROM holdfast_audit WHERE at < ?1 ORDER BY at, id LIMIT ?2)
SELECT id FROM old WHERE NOT EXISTS (SELECT 1 FROM holdfast_audit_links l WHERE l.entry = old.id)`

	pruneLinks    = `DELETE FROM holdfast_audit_links WHERE seq <= ?1`
	moveAnchor    = `UPDATE holdfast_audit_chain SET anchor_seq = ?1, anchor_hash = ?2`
	pruneUnsealed = `DELETE FROM holdfast_audit_unsealed
		WHERE entry IN (SELECT value FROM json_each(?1))`
	// pruneOrphans deletes the rows of the queue whose time is in a range and whose entry is
	// missing.
	pruneOrphans = `DELETE FROM holdfast_audit_unsealed WHERE entry IN (
		SELECT entry FROM holdfast_audit_unsealed u WHERE at > ?1 AND at < ?2
			AND NOT EXISTS (SELECT 1 FROM holdfast_audit a WHERE a.id = u.entry)
		ORDER BY at LIMIT ?3)`
	pruneAudit = `DELETE FROM holdfast_audit WHERE id IN (SELECT value FROM json_each(?1))`

	prunePauses = `DELETE FROM holdfast_pauses
		WHERE id IN (SELECT id FROM holdfast_pauses WHERE resumed_at < ?1 LIMIT ?2)`

	pruneWaitHistory = `DELETE FROM holdfast_wait_history
		WHERE rowid IN (SELECT rowid FROM holdfast_wait_history WHERE until < ?1 ORDER BY until
			LIMIT ?2)`

	pruneTallies = `DELETE FROM holdfast_tallies WHERE quarter < ?1`

	markIdle = `
UPDATE holdfast_definitions AS d SET idle_since = CASE WHEN idle_since IS NULL THEN ?1 END
WHERE (idle_since IS NULL) = (
    NOT EXISTS (SELECT 1 FROM holdfast_session_jobs c WHERE c.job = d.job AND c.version = d.version)
    AND NOT EXISTS (SELECT 1 FROM holdfast_jobs j
        WHERE j.name = d.job AND abs(j.version) = d.version))`

	// The newest version of a job remains, because the next version is counted from it.
	pruneDefinitions = `
DELETE FROM holdfast_definitions AS d WHERE idle_since < ?1
    AND version < (SELECT max(o.version) FROM holdfast_definitions o WHERE o.job = d.job)`

	pruneSubscriptions = `
DELETE FROM holdfast_subscriptions AS s
WHERE NOT EXISTS (SELECT 1 FROM holdfast_definitions d
    WHERE d.job = s.job AND d.version = s.version)`
)

// Prune implements storage.Upkeep.
func (s *Store) Prune(ctx context.Context, session uuid.UUID,
	r storage.PruneRequest) (storage.Pruned, error) {
	if err := s.exclusively("pruning"); err != nil {
		return storage.Pruned{}, err
	}
	if !s.pruning.Take(session, time.Now()) {
		return storage.Pruned{Busy: true}, nil
	}
	var pruned storage.Pruned
	err := s.write(ctx, "prune history", func(tx *sql.Tx) (err error) {
		now := time.Now()
		before := micros(now.Add(-r.Keep))
		if r.Triggered {
			pruned.Runs, err = pruneTriggeredRuns(ctx, tx, before, r.Limit)
			pruned.More = pruned.Runs == r.Limit
			return err
		}
		if r.After == nil {
			pruned.Definitions, err = pruneOnce(ctx, tx, now, before)
		}
		if err == nil {
			err = pruneOldRuns(ctx, tx, r, before, &pruned)
		}
		if err == nil {
			pruned.Audited, err = pruneOldAudit(ctx, tx, before, micros(now), r.Limit)
		}
		if err == nil {
			err = pruneQueue(ctx, tx, before, micros(now.Add(time.Minute)), r.Limit)
		}
		if err == nil {
			pruned.Pauses, err = execRow(ctx, tx, prunePauses, before, r.Limit)
		}
		if err == nil {
			pruned.Waits, err = execRow(ctx, tx, pruneWaitHistory, before, r.Limit)
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, pruneTallies, before)
		}
		return err
	})
	if err != nil {
		return storage.Pruned{}, err
	}
	return pruned, nil
}

// pruneOnce deletes what a round deletes once.
func pruneOnce(ctx context.Context, tx *sql.Tx, now time.Time,
	before int64) (definitions int, err error) {
	for _, statement := range []string{forgetFailures, forgetSignOuts, markIdle} {
		if _, err = tx.ExecContext(ctx, statement, micros(now)); err != nil {
			return 0, err
		}
	}
	if definitions, err = execRow(ctx, tx, pruneDefinitions, before); err == nil &&
		definitions > 0 {
		_, err = tx.ExecContext(ctx, pruneSubscriptions)
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, pruneBackfills, before)
	}
	return definitions, err
}

// pruneTriggeredRuns deletes ended runs of triggers, and returns how many.
func pruneTriggeredRuns(ctx context.Context, tx *sql.Tx, before int64, limit int) (int, error) {
	var old []uuid.UUID
	err := each(ctx, tx, triggeredRuns, []any{before, limit}, func(rows *sql.Rows) error {
		var id uuid.UUID
		err := rows.Scan(&id)
		old = append(old, id)
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, statement := range []string{rememberSuccesses, pruneTriggered, pruneRunAttempts,
		pruneOutputs} {
		if err := execBatch(ctx, tx, statement, old); err != nil {
			return 0, err
		}
	}
	return len(old), nil
}

// pruneOldRuns scans the history from its beginning, or from the end of the previous batch.
func pruneOldRuns(ctx context.Context, tx *sql.Tx, r storage.PruneRequest, before int64,
	pruned *storage.Pruned) error {
	var after storage.RunCursor
	since := int64(0)
	if r.After != nil {
		after, since = *r.After, micros(r.After.CreatedAt)
	}
	var old []uuid.UUID
	var last storage.RunCursor
	err := each(ctx, tx, oldRuns, []any{before, since, after.ID, r.Limit},
		func(rows *sql.Rows) error {
			var created int64
			err := rows.Scan(&last.ID, &created)
			last.CreatedAt = fromMicros(created)
			old = append(old, last.ID)
			return err
		})
	if err != nil || len(old) == 0 {
		return err
	}
	if err := execBatch(ctx, tx, rememberSuccesses, old); err != nil {
		return err
	}
	gone, err := deleted(ctx, tx, pruneRuns, old, before)
	if err != nil {
		return err
	}
	if pruned.Runs = len(gone); len(old) == r.Limit {
		pruned.Next = &last
	}
	if err := execBatch(ctx, tx, pruneRunAttempts, gone); err != nil {
		return err
	}
	return execBatch(ctx, tx, pruneOutputs, gone)
}

// pruneOldAudit deletes the beginning of the chain with its entries, and old entries without a
// link. It returns the number of entries.
func pruneOldAudit(ctx context.Context, tx *sql.Tx, before, now int64, limit int) (int, error) {
	var doomed []uuid.UUID
	var anchor int64
	var hash []byte
	err := each(ctx, tx, oldLinks, []any{before, limit, now}, func(rows *sql.Rows) error {
		var id uuid.UUID
		err := rows.Scan(&anchor, &id, &hash)
		doomed = append(doomed, id)
		return err
	})
	if err == nil {
		err = each(ctx, tx, oldUnlinked, []any{before, limit}, func(rows *sql.Rows) error {
			var id uuid.UUID
			err := rows.Scan(&id)
			doomed = append(doomed, id)
			return err
		})
	}
	if err != nil || len(doomed) == 0 {
		return 0, err
	}
	if anchor > 0 {
		if _, err := tx.ExecContext(ctx, moveAnchor, anchor, hash); err != nil {
			return 0, err
		}
		if _, err := tx.ExecContext(ctx, pruneLinks, anchor); err != nil {
			return 0, err
		}
	}
	ids, err := encode(doomed)
	if err != nil {
		return 0, err
	}
	if _, err := tx.ExecContext(ctx, pruneUnsealed, ids); err != nil {
		return 0, err
	}
	return execRow(ctx, tx, pruneAudit, ids)
}

// pruneQueue deletes rows of the queue whose entry is missing, if they are old or ahead of the
// clock.
func pruneQueue(ctx context.Context, tx *sql.Tx, before, ahead int64, limit int) error {
	for _, times := range [][2]int64{{math.MinInt64, before}, {ahead, math.MaxInt64}} {
		if _, err := tx.ExecContext(ctx, pruneOrphans, times[0], times[1], limit); err != nil {
			return err
		}
	}
	return nil
}

// deleted returns the ids whose rows a statement has deleted.
func deleted(ctx context.Context, tx *sql.Tx, statement string, ids []uuid.UUID,
	args ...any) ([]uuid.UUID, error) {
	encoded, err := encode(ids)
	if err != nil {
		return nil, err
	}
	var gone []uuid.UUID
	err = each(ctx, tx, statement, append([]any{encoded}, args...), func(rows *sql.Rows) error {
		var id uuid.UUID
		err := rows.Scan(&id)
		gone = append(gone, id)
		return err
	})
	return gone, err
}

// execRow runs a statement and returns how many rows it changed.
func execRow(ctx context.Context, tx *sql.Tx, statement string, args ...any) (int, error) {
	done, err := tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	changed, err := done.RowsAffected()
	return int(changed), err
}
