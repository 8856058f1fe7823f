package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	recordColumns = columnsBeforeWait + `
        CASE WHEN r.state = 'waiting' THEN (SELECT w.since FROM holdfast.waits w
            WHERE w.run = r.id) END` + columnsAfterWait

	columnsBeforeWait = `
    r.id, r.job, r.scheduled_at, r.key, r.state, r.recovery, r.attempt, r.replica, r.token,
        r.created_at, r.started_at, r.finished_at, r.retry_waits,
    r.reason, r.detail, r.blocker, r.blocked_at, r.error, r.params, r.waited, r.start_by,`
	columnsAfterWait = `, r.backfill, r.key_actor`

	oneRun = `
SELECT` + recordColumns + `, coalesce(o.output, ''), o.result
FROM holdfast.runs r LEFT JOIN holdfast.outputs o ON o.run = r.id WHERE r.id = $1`

	listLocks = `
SELECT g.resource, g.mode, g.slots, s.replica, coalesce(c.owner ->> 'job', r.job),
    coalesce(c.owner ->> 'run_id', r.id::text),
    g.token, c.granted_at, s.expires_at
FROM holdfast.grants g JOIN holdfast.claims c USING (token)
    JOIN holdfast.sessions s ON s.id = c.session
LEFT JOIN holdfast.runs r ON r.id = c.run
ORDER BY g.resource, g.token`

	listJobs = `
SELECT j.name, d.hash, d.schedule, d.zone, d.handler, d.resources, d.recover, d.description,
    d.job_group, d.priority, d.source,
    d.version, j.version < 0, j.updated_at
FROM holdfast.jobs j JOIN holdfast.definitions d ON d.job = j.name AND d.version = abs(j.version)
    ORDER BY j.name`

	lastRuns = `
SELECT` + recordColumns + `, '', NULL::text
FROM holdfast.jobs j CROSS JOIN LATERAL (
    SELECT * FROM holdfast.runs WHERE job = j.name AND state NOT IN ('waiting', 'running')
        AND ` + byCreation + `
    ORDER BY created_at DESC, id DESC LIMIT 1) r`

	sessionColumns = `s.id, s.replica, s.version, s.started_at, s.renewed_at, s.expires_at,
    s.ended_at, s.stopped, s.lock_servers, s.config_hash, s.draining, s.clock_offset_ms,
    s.workers, s.busy, s.not_ready, s.stopping AND s.ended_at IS NULL, s.databases::text`
	sessionOrder = `ORDER BY s.replica, s.started_at, s.id`
	// listReplicas reads the claims once, because their table also has many deleted rows.
	listReplicas = `
SELECT ` + sessionColumns + `, coalesce(n.runs, 0)
FROM holdfast.sessions s LEFT JOIN (
    SELECT session, count(*) AS runs FROM holdfast.claims WHERE owner IS NULL GROUP BY session) n
    ON n.session = s.id
WHERE s.ended_at IS NULL OR s.ended_at > clock_timestamp() - $1::interval AND NOT s.removed
` + sessionOrder
	// openSessions reads no claims: each replica executes it every few seconds.
	openSessions = `
SELECT ` + sessionColumns + `, 0 FROM holdfast.sessions s WHERE s.ended_at IS NULL ` + sessionOrder
)

// Locks implements storage.History.
func (s *Store) Locks(ctx context.Context) ([]storage.LockView, error) {
	rows, err := s.views.Query(ctx, listLocks)
	if err != nil {
		return nil, wrap("list locks", err)
	}
	locks, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (storage.LockView, error) {
		var v storage.LockView
		var key string
		if err := row.Scan(&key, &v.Mode, &v.Slots, &v.Holder.Replica, &v.Holder.Job, &v.Holder.Run,
			&v.Token, &v.Since, &v.Expires); err != nil {
			return v, err
		}
		resource, err := locking.ParseKey(key)
		v.Resource, v.Since, v.Expires = resource, v.Since.UTC(), v.Expires.UTC()
		return v, err
	})
	return locks, wrap("list locks", err)
}

// Jobs implements storage.History.
func (s *Store) Jobs(ctx context.Context) ([]storage.JobView, error) {
	rows, err := s.views.Query(ctx, lastRuns)
	if err != nil {
		return nil, wrap("list jobs", err)
	}
	records, err := pgx.CollectRows(rows, scanRecord)
	if err != nil {
		return nil, wrap("list jobs", err)
	}
	last := map[string]*storage.Record{}
	for i := range records {
		last[records[i].Job] = &records[i]
	}
	if rows, err = s.views.Query(ctx, listJobs); err != nil {
		return nil, wrap("list jobs", err)
	}
	views, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (storage.JobView, error) {
		var v storage.JobView
		var resources []byte
		if err := row.Scan(&v.Name, &v.Hash, &v.Schedule, &v.Zone, &v.Handler, &resources,
			&v.Recover, &v.Description,
			&v.Group, &v.Priority, &v.Source, &v.Version, &v.Removed, &v.UpdatedAt); err != nil {
			return v, err
		}
		requests, err := parseRequests(resources)
		v.Resources, v.UpdatedAt, v.Last = requests, v.UpdatedAt.UTC(), last[v.Name]
		return v, err
	})
	return views, wrap("list jobs", err)
}

// Run implements storage.History.
func (s *Store) Run(ctx context.Context, id uuid.UUID) (storage.Record, error) {
	rows, err := s.views.Query(ctx, oneRun, id)
	if err != nil {
		return storage.Record{}, wrap("run", err)
	}
	return oneRecord("run "+id.String(), rows)
}

func oneRecord(what string, rows pgx.Rows) (storage.Record, error) {
	record, err := pgx.CollectExactlyOneRow(rows, scanRecord)
	if err == pgx.ErrNoRows {
		return storage.Record{}, fmt.Errorf("%s: %w", what, storage.ErrNotFound)
	}
	return record, wrap(what, err)
}

func scanRecord(row pgx.CollectableRow) (storage.Record, error) {
	var r storage.Record
	var token *jobs.Token
	var blocker, waited []byte
	var waits, blockedAt *time.Time
	var retryWaits []time.Time
	var result *string
	var backfill uuid.NullUUID
	err := row.Scan(&r.ID, &r.Job, &r.ScheduledAt, &r.Key, &r.State, &r.Recovery, &r.Attempt,
		&r.Replica, &token, &r.CreatedAt,
		&r.StartedAt, &r.FinishedAt, &retryWaits, &r.Reason, &r.Detail, &blocker, &blockedAt,
		&r.Error, &r.Params, &waited, &r.StartBy, &waits, &backfill, &r.KeyActor, &r.Output,
		&result)
	if err != nil {
		return r, err
	}
	if token != nil {
		r.Token = *token
	}
	if result != nil {
		r.Result = json.RawMessage(*result)
	}
	r.Backfill = backfill.UUID
	if waits != nil {
		r.WaitSince = waits.UTC()
	}
	r.ScheduledAt, r.CreatedAt, r.StartedAt, r.FinishedAt = r.ScheduledAt.UTC(), r.CreatedAt.UTC(),
		utc(r.StartedAt), utc(r.FinishedAt)
	r.RetryWaits = storage.NewRetryWaits(retryWaits)
	r.StartBy = utc(r.StartBy)
	if r.BlockedBy, err = parseBlocker(blocker); err == nil {
		r.Waited, err = parseWait(waited)
	}
	if r.State == jobs.Skipped && r.StartedAt == nil && r.BlockedBy != nil && blockedAt != nil {
		r.Waited = skippedWait(r, blockedAt.UTC())
	}
	return r, err
}

// skippedWait returns how a run waited that was skipped. It has no row for its wait. Its row is as
// old as its wait if it waited for some time, and else blocked_at has the beginning of the wait.
func skippedWait(r storage.Record, blockedAt time.Time) *storage.Wait {
	w := &storage.Wait{Blocker: *r.BlockedBy, Since: r.CreatedAt}
	if blockedAt.Before(w.Since) {
		w.Since = blockedAt
	}
	return w
}

// parseWait returns the wait of a column, or nil for NULL.
func parseWait(column []byte) (w *storage.Wait, err error) {
	if column == nil {
		return nil, nil
	}
	if err = json.Unmarshal(column, &w); err == nil {
		w.Since = w.Since.UTC()
		w.Resource, w.Root.Resource = shownKey(w.Resource), shownKey(w.Root.Resource)
	}
	return w, err
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	in := t.UTC()
	return &in
}

// Replicas implements storage.History.
func (s *Store) Replicas(ctx context.Context) ([]storage.ReplicaView, error) {
	rows, err := s.views.Query(ctx, listReplicas, storage.SessionsKept)
	if err != nil {
		return nil, wrap("list replicas", err)
	}
	replicas, err := pgx.CollectRows(rows, scanReplica)
	return replicas, wrap("list replicas", err)
}

func scanReplica(row pgx.CollectableRow) (storage.ReplicaView, error) {
	var v storage.ReplicaView
	var databases string
	err := row.Scan(&v.Session, &v.Name, &v.Version, &v.StartedAt, &v.LastHeartbeat, &v.ExpiresAt,
		&v.EndedAt, &v.Stopped, &v.LockServers, &v.ConfigHash, &v.Draining, &v.ClockOffset,
		&v.Workers, &v.Busy, &v.NotReady, &v.Stopping, &databases, &v.Running)
	v.Databases = storage.DecodeDatabases(databases)
	v.StartedAt, v.LastHeartbeat = v.StartedAt.UTC(), v.LastHeartbeat.UTC()
	v.ExpiresAt, v.EndedAt = v.ExpiresAt.UTC(), utc(v.EndedAt)
	return v, err
}
