package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	insertRun = `
INSERT INTO holdfast_runs (id, job, scheduled_at, key, recovery, attempt, state, session, replica,
    token, created_at, started_at, finished_at,
    wait_since, reason, detail, blocker, error, params, waited, blocked_at,
    reserved_until, in_turn, rests, start_by, key_actor)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
    ?21, ?22, ?23, ?24, ?25, ?26)`

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
    rests = excluded.rests`

	// addRun inserts a run unless its firing has one.
	addRun = insertRun + ` ON CONFLICT DO NOTHING`

	knownRuns = `
SELECT r.id, r.job, r.scheduled_at, r.key, r.recovery, r.attempt, r.state, r.session, r.replica,
    r.token, r.created_at, r.started_at, r.finished_at,
    r.wait_since, r.reason, r.detail, r.blocker, r.error, r.params, r.waited, r.blocked_at,
    r.reserved_until, r.in_turn, r.rests, r.start_by, r.key_actor, c.token IS NOT NULL
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
	ID          uuid.UUID
	Job         string
	ScheduledAt int64
	Key         string
	Recovery    int
	Attempt     int
	State       jobs.State
	Session     *uuid.UUID
	Replica     string
	Token       *int64
	Created     int64
	Started     *int64
	Finished    *int64
	Since       *int64

	Reason  jobs.Reason
	Detail  string
	Blocker *string
	Error   string
	Params  *string
	Waited  *string

	BlockedAt *int64 // since when it waits for the blocker, while it has one

	ReservedUntil int64 // of one that waits; 0 where it never was
	InTurn        bool  // it waits for its turn in its group

	Rests   *string // times in JSON
	StartBy *int64  // when it must have begun

	KeyActor string // who chose the key

	claimed bool // the claim of its token stands
}

func (r runRow) values() []any {
	return []any{r.ID, r.Job, r.ScheduledAt, r.Key, r.Recovery, r.Attempt, r.State, r.Session,
		r.Replica, r.Token, r.Created, r.Started, r.Finished,
		r.Since, r.Reason, r.Detail, r.Blocker, r.Error, r.Params, r.Waited, r.BlockedAt,
		r.ReservedUntil, r.InTurn, r.Rests, r.StartBy, r.KeyActor}
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

// newRun returns a waiting run of the firing that has no session and has not started.
func newRun(id uuid.UUID, f storage.Firing, now int64) runRow {
	return runRow{ID: id, Job: f.Job, ScheduledAt: micros(f.ScheduledAt), Key: f.Key,
		Recovery: f.Recovery, State: jobs.Waiting, Created: now}
}

// setBlocker records for whom the run waits from now on. The first blocker counts from the
// beginning of the wait. It must be called before the run gets its new reason.
func (r *runRow) setBlocker(b *jobs.Blocker, since, now int64) error {
	before, err := r.record()
	if err != nil {
		return err
	}
	if r.Blocker = nil; b == nil {
		return nil
	}
	switch {
	case before.BlockedBy != nil && before.BlockedBy.Holder.Run == b.Holder.Run:
	case r.Reason == "":
		r.BlockedAt = &since
	default:
		r.BlockedAt = &now
	}
	encoded, err := encode(b)
	r.Blocker = &encoded
	return err
}

// reserve reserves the position of a waiting run by locking.Reserve, and returns for how much
// longer it is reserved.
func (r *runRow) reserve(d time.Duration, now int64) time.Duration {
	var until time.Time
	if r.ReservedUntil != 0 {
		until = fromMicros(r.ReservedUntil)
	}
	if until = locking.Reserve(until, fromMicros(now), d); until.IsZero() {
		return 0
	}
	r.ReservedUntil = micros(until)
	return max(0, until.Sub(fromMicros(now)))
}

// keepWait stores the last blocker of the run when it starts.
func (r *runRow) keepWait(now int64) error {
	if r.Blocker == nil {
		return nil
	}
	wait := storage.Wait{Since: fromMicros(now)}
	if err := json.Unmarshal([]byte(*r.Blocker), &wait.Blocker); err != nil {
		return fmt.Errorf("blocker of run %s: %w", r.ID, err)
	}
	if r.Since != nil {
		wait.Since = fromMicros(*r.Since)
	}
	encoded, err := encode(wait)
	r.Waited = &encoded
	return err
}

func scanRunRow(rows *sql.Rows) (runRow, error) {
	var r runRow
	err := rows.Scan(&r.ID, &r.Job, &r.ScheduledAt, &r.Key, &r.Recovery, &r.Attempt, &r.State,
		&r.Session, &r.Replica, &r.Token, &r.Created,
		&r.Started, &r.Finished, &r.Since, &r.Reason, &r.Detail, &r.Blocker, &r.Error, &r.Params,
		&r.Waited, &r.BlockedAt,
		&r.ReservedUntil, &r.InTurn, &r.Rests, &r.StartBy, &r.KeyActor, &r.claimed)
	return r, err
}

func (r *runRow) record() (storage.Record, error) {
	record := storage.Record{
		ID: r.ID, Job: r.Job, ScheduledAt: fromMicros(r.ScheduledAt), Key: r.Key, State: r.State,
		Recovery: r.Recovery, Attempt: r.Attempt, Replica: r.Replica,
		CreatedAt: fromMicros(r.Created), Reason: r.Reason, Detail: r.Detail, Error: r.Error,
	}
	if r.Token != nil {
		record.Token = jobs.Token(*r.Token)
	}
	if r.Started != nil {
		at := fromMicros(*r.Started)
		record.StartedAt = &at
	}
	if r.StartBy != nil {
		at := fromMicros(*r.StartBy)
		record.StartBy = &at
	}
	if r.Since != nil {
		record.WaitSince = fromMicros(*r.Since)
	}
	if r.Finished != nil {
		at := fromMicros(*r.Finished)
		record.FinishedAt = &at
	}
	var err error
	if record.Rests, err = restsOf(r.Rests); err != nil {
		return record, fmt.Errorf("run %s: %w", r.ID, err)
	}
	if r.Params != nil {
		record.Params = json.RawMessage(*r.Params)
	}
	if r.Blocker != nil {
		if err := json.Unmarshal([]byte(*r.Blocker), &record.BlockedBy); err != nil {
			return record, fmt.Errorf("blocker of run %s: %w", r.ID, err)
		}
	}
	if r.Waited != nil {
		if err := json.Unmarshal([]byte(*r.Waited), &record.Waited); err != nil {
			return record, fmt.Errorf("wait of run %s: %w", r.ID, err)
		}
	}
	return record, nil
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
