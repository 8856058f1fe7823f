package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	insertRun = `
INSERT INTO holdfast_runs (id, job, scheduled_at, key, recovery, attempt, state, session, replica,
    token, created_at, started_at, finished_at,
    wait_since, reason, detail, blocker, error, params, waited, blocked_at,
    reserved_until, in_turn, retry_waits, start_by, key_actor, backfill)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
    ?21, ?22, ?23, ?24, ?25, ?26, ?27)`

	// saveRun inserts a run, or updates the existing one. The caller has looked for other runs of
	// the firing.
	saveRun = insertRun + `
ON CONFLICT (id) DO UPDATE SET
    attempt = excluded.attempt, state = excluded.state, session = excluded.session,
        replica = excluded.replica, token = excluded.token,
    started_at = excluded.started_at, finished_at = excluded.finished_at,
        wait_since = excluded.wait_since,
    reason = excluded.reason, detail = excluded.detail, blocker = excluded.blocker,
        error = excluded.error,
    waited = excluded.waited, blocked_at = excluded.blocked_at,
        reserved_until = excluded.reserved_until, in_turn = excluded.in_turn,
    retry_waits = excluded.retry_waits`

	// addRun inserts a run unless its firing has one.
	addRun = insertRun + ` ON CONFLICT DO NOTHING`

	knownRuns = `
SELECT r.id, r.job, r.scheduled_at, r.key, r.recovery, r.attempt, r.state, r.session, r.replica,
    r.token, r.created_at, r.started_at, r.finished_at,
    r.wait_since, r.reason, r.detail, r.blocker, r.error, r.params, r.waited, r.blocked_at,
    r.reserved_until, r.in_turn, r.retry_waits, r.start_by, r.key_actor,
    r.backfill, c.token IS NOT NULL
FROM json_each(?1) q CROSS JOIN holdfast_runs r ON r.id = q.value LEFT
    JOIN holdfast_claims c ON c.run = r.id`

	takenFirings = `
SELECT r.job, r.scheduled_at, r.key, r.recovery FROM json_each(?1) q CROSS JOIN holdfast_runs r
ON r.job = q.value->>'job' AND r.scheduled_at = q.value->>'scheduled_at'
    AND r.recovery = q.value->>'recovery' AND r.key = ''
WHERE q.value->>'key' = ''`

	takenKeys = `
SELECT r.job, 0, r.key, r.recovery FROM json_each(?1) q CROSS JOIN holdfast_runs r
ON r.job = q.value->>'job' AND r.key = q.value->>'key' AND r.recovery = q.value->>'recovery'
    AND r.key <> ''`

	namedVersions = `SELECT j.name, j.version FROM json_each(?1) q CROSS
		JOIN holdfast_jobs j ON j.name = q.value`

	addWant = `INSERT INTO holdfast_wants (resource, mode, slots, run) VALUES (?1, ?2, ?3, ?4)
		ON CONFLICT DO NOTHING`

	// endWants deletes all wants of the runs.
	endWants = `DELETE FROM holdfast_wants WHERE run IN (SELECT value FROM json_each(?1))`

	// withdrawWants leaves triggered runs that have not started their positions in their jobs.
	withdrawWants = `
DELETE FROM holdfast_wants AS w WHERE w.run IN (SELECT value FROM json_each(?1))
    AND NOT EXISTS (SELECT 1 FROM holdfast_runs r WHERE r.id = w.run AND ` + ownJobWait + `)`
)

// runRow is a row of holdfast_runs.
type runRow struct {
	rules.Run
	claimed bool // the claim of its token exists
}

func (r runRow) values() []any {
	return []any{r.ID, r.Job, micros(r.ScheduledAt), r.Key, r.Recovery, r.Attempt, r.State,
		null(r.Session), r.Replica, null(r.Token), micros(r.CreatedAt), nullMicros(r.StartedAt),
		nullMicros(r.FinishedAt), nullMicros(&r.WaitSince), r.Reason, r.Detail,
		jsonColumn{r.BlockedBy}, r.Error, null(string(r.Params)), jsonColumn{r.Waited},
		nullMicros(&r.BlockedAt), microsOrZero(r.ReservedUntil), r.InTurn,
		jsonColumn{retryWaitColumn(r.RetryWaits)}, nullMicros(r.StartBy), r.KeyActor,
		null(r.Backfill)}
}

// firing identifies the runs of a firing: by a scheduled time, or by a key.
type firing struct {
	Job         string `json:"job"`
	ScheduledAt int64  `json:"scheduled_at"` // 0 where there is a key
	Key         string `json:"key"`
	Recovery    int    `json:"recovery"`
}

func firingOf(f storage.Firing) firing {
	unique := firing{Job: f.Job, Key: f.Key, Recovery: f.Recovery}
	if f.Key == "" {
		unique.ScheduledAt = micros(f.ScheduledAt)
	}
	return unique
}

func scanRunRow(rows *sql.Rows) (runRow, error) {
	var r runRow
	var scheduledAt, created, reservedUntil int64
	var session, backfill uuid.NullUUID
	var token, started, finished, since, blockedAt, startBy sql.NullInt64
	var blocker, params, waited, retryWaits *string
	err := rows.Scan(&r.ID, &r.Job, &scheduledAt, &r.Key, &r.Recovery, &r.Attempt, &r.State,
		&session, &r.Replica, &token, &created, &started, &finished, &since, &r.Reason, &r.Detail,
		&blocker, &r.Error, &params, &waited, &blockedAt, &reservedUntil, &r.InTurn, &retryWaits,
		&startBy, &r.KeyActor, &backfill, &r.claimed)
	if err != nil {
		return r, err
	}
	r.Session, r.Backfill, r.Token = session.UUID, backfill.UUID, jobs.Token(token.Int64)
	r.ScheduledAt, r.CreatedAt = fromMicros(scheduledAt), fromMicros(created)
	r.StartedAt, r.FinishedAt, r.StartBy = fromNullMicros(started), fromNullMicros(finished),
		fromNullMicros(startBy)
	r.WaitSince, r.BlockedAt, r.ReservedUntil = fromMicrosOrZero(since.Int64),
		fromMicrosOrZero(blockedAt.Int64), fromMicrosOrZero(reservedUntil)
	if params != nil {
		r.Params = json.RawMessage(*params)
	}
	if r.RetryWaits, err = retryWaitsOf(retryWaits); err == nil {
		err = decodeColumn("blocker", blocker, &r.BlockedBy)
	}
	if err == nil {
		err = decodeColumn("wait", waited, &r.Waited)
	}
	if err != nil {
		return r, fmt.Errorf("run %s: %w", r.ID, err)
	}
	return r, nil
}

// ledger has the existing runs that concern a batch of firings.
type ledger struct {
	known    map[uuid.UUID]*runRow // by the batch's run ids
	taken    map[firing]bool       // of the batch's firings
	versions map[string]int64      // of the batch's jobs
}

func loadLedger(ctx context.Context, tx *sql.Tx, ids []uuid.UUID,
	firings []firing) (*ledger, error) {
	l := &ledger{known: map[uuid.UUID]*runRow{}, taken: map[firing]bool{},
		versions: map[string]int64{}}
	runs, err := loadRuns(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	for i := range runs {
		l.known[runs[i].ID] = &runs[i]
	}
	encoded, err := encode(firings)
	if err != nil {
		return nil, err
	}
	for _, query := range []string{takenFirings, takenKeys} {
		err := each(ctx, tx, query, []any{encoded}, func(rows *sql.Rows) error {
			var f firing
			err := rows.Scan(&f.Job, &f.ScheduledAt, &f.Key, &f.Recovery)
			l.taken[f] = true
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return l, l.loadVersions(ctx, tx, firings)
}

func (l *ledger) loadVersions(ctx context.Context, tx *sql.Tx, firings []firing) error {
	seen := map[string]bool{}
	names := []string{}
	for _, f := range firings {
		if !seen[f.Job] {
			seen[f.Job] = true
			names = append(names, f.Job)
		}
	}
	encoded, err := encode(names)
	if err != nil {
		return err
	}
	return each(ctx, tx, namedVersions, []any{encoded}, func(rows *sql.Rows) error {
		var name string
		var version int64
		err := rows.Scan(&name, &version)
		l.versions[name] = version
		return err
	})
}

// stale reports whether the active version of the job is not version.
func (l *ledger) stale(job string, version int64) bool {
	now, known := l.versions[job]
	return version > 0 && known && now != version
}

func loadRuns(ctx context.Context, from queryer, ids []uuid.UUID) ([]runRow, error) {
	encoded, err := encode(ids)
	if err != nil {
		return nil, err
	}
	var runs []runRow
	err = each(ctx, from, knownRuns, []any{encoded}, func(rows *sql.Rows) error {
		run, err := scanRunRow(rows)
		runs = append(runs, run)
		return err
	})
	return runs, err
}
