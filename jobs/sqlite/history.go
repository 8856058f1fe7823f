package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	runColumns = `
r.id, r.job, r.scheduled_at, r.key, r.recovery, r.attempt, r.state, r.session, r.replica, r.token,
    r.created_at, r.started_at, r.finished_at,
    r.wait_since, r.reason, r.detail, r.blocker, r.error, r.params, r.waited, r.blocked_at,
        r.reserved_until, r.in_turn, r.retry_waits, r.start_by, r.key_actor, r.backfill, 0`

	selectRuns = `SELECT ` + runColumns + ` FROM holdfast_runs r`

	// locksRelated is the condition that a definition locks one of the keys in the first argument
	// or a key with the prefix in the second.
	locksRelated = `
 AND EXISTS (SELECT 1 FROM json_each(d.resources) e
    WHERE e.value ->> 'resource' IN (SELECT value FROM json_each(%[1]s))
        OR substr(e.value ->> 'resource', 1, length(%[2]s)) = %[2]s)`

	readOutput = `SELECT output, result FROM holdfast_outputs WHERE run = ?1`

	listLocks = `
SELECT g.resource, g.mode, g.slots, r.replica, r.job, r.id, g.token, c.granted_at, c.session,
    coalesce(s.expires_at, 0)
FROM holdfast_grants g JOIN holdfast_claims c ON c.token = g.token
JOIN holdfast_runs r ON r.id = c.run LEFT JOIN holdfast_sessions s ON s.id = c.session
ORDER BY g.resource, g.token`

	listJobs = `
SELECT j.name, d.hash, d.schedule, d.zone, d.handler, d.resources, d.recover, d.description,
    d.job_group, d.priority, d.source,
    d.version, j.version < 0, j.updated_at
FROM holdfast_jobs j CROSS JOIN holdfast_definitions d ON d.job = j.name
    AND d.version = abs(j.version) ORDER BY j.name`

	lastRuns = `
SELECT ` + runColumns + ` FROM holdfast_jobs j CROSS JOIN holdfast_runs r ON r.id = (
    SELECT id FROM holdfast_runs WHERE job = j.name AND finished_at IS NOT NULL
        ORDER BY created_at DESC, id DESC LIMIT 1)`

	sessionColumns = `s.id, s.replica, s.version, s.started_at, s.renewed_at, s.expires_at,
    s.ended_at, s.stopped, s.lock_servers, s.config_hash, s.draining, s.clock_offset_ms,
    s.workers, s.busy, s.not_ready,
    s.stopping AND s.ended_at IS NULL, s.databases`
	sessionOrder = `ORDER BY s.replica, s.started_at, s.id`
	listReplicas = `
SELECT ` + sessionColumns + `, (SELECT count(*) FROM holdfast_claims c WHERE c.session = s.id)
FROM holdfast_sessions s WHERE s.ended_at IS NULL OR s.ended_at > ?1 AND NOT s.removed
` + sessionOrder
	openSessions = `
SELECT ` + sessionColumns + `, 0 FROM holdfast_sessions s WHERE s.ended_at IS NULL ` + sessionOrder
)

// Locks implements storage.History.
func (s *Store) Locks(ctx context.Context) ([]storage.LockView, error) {
	var locks []storage.LockView
	err := each(ctx, s.readers, listLocks, nil, func(rows *sql.Rows) error {
		var v storage.LockView
		var stored storedRequest
		var since, expires int64
		var session uuid.UUID
		err := rows.Scan(&stored.Resource, &v.Mode, &v.Slots, &v.Holder.Replica, &v.Holder.Job,
			&v.Holder.Run, &v.Token, &since, &session, &expires)
		if err != nil {
			return err
		}
		v.Since, v.Expires = fromMicros(since), s.expiry(session, expires)
		v.Resource, err = locking.ParseKey(stored.Resource)
		locks = append(locks, v)
		return err
	})
	return locks, wrap("list locks", err)
}

// expiry returns the expiry of a session of this process from memory. The file's may be old while a
// job's transaction takes long.
func (s *Store) expiry(session uuid.UUID, stored int64) time.Time {
	if known, live := s.sessions.get(session); live {
		stored = micros(known.expires)
	}
	return fromMicros(stored)
}

// Jobs implements storage.History.
func (s *Store) Jobs(ctx context.Context) ([]storage.JobView, error) {
	last := map[string]*storage.Record{}
	records, err := s.records(ctx, lastRuns)
	if err != nil {
		return nil, wrap("list jobs", err)
	}
	for i := range records {
		last[records[i].Job] = &records[i]
	}
	var views []storage.JobView
	err = each(ctx, s.readers, listJobs, nil, func(rows *sql.Rows) error {
		var v storage.JobView
		var resources string
		var updated int64
		err := rows.Scan(&v.Name, &v.Hash, &v.Schedule, &v.Zone, &v.Handler, &resources, &v.Recover,
			&v.Description,
			&v.Group, &v.Priority, &v.Source, &v.Version, &v.Removed, &updated)
		if err != nil {
			return err
		}
		v.Last, v.UpdatedAt = last[v.Name], fromMicros(updated)
		v.Resources, err = decodeRequests(resources)
		views = append(views, v)
		return err
	})
	return views, wrap("list jobs", err)
}

// Runs implements storage.History.
func (s *Store) Runs(ctx context.Context, f storage.RunFilter) ([]storage.Record, error) {
	query, args, err := runsQuery(f)
	if err != nil {
		return nil, wrap("list runs", err)
	}
	records, err := s.records(ctx, query, args...)
	if backwards(f.Before != nil, f.After != nil) {
		slices.Reverse(records)
	}
	return records, wrap("list runs", err)
}

// runsQuery has one part for each state, so that each part scans an index from its end and stops at
// the limit, however long the history is.
func runsQuery(f storage.RunFilter) (string, []any, error) {
	var args []any
	q := pageOfRuns{where: " WHERE true", arg: func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("?%d", len(args))
	}}
	q.narrow(f)
	order := " ORDER BY created_at DESC, id DESC"
	if backwards(f.Before != nil, f.After != nil) {
		order = " ORDER BY created_at, id"
	}
	page := order + " LIMIT " + q.arg(storage.PageSize(f.Limit))
	q.order = page
	if err := q.selectJobs(f); err != nil {
		return "", nil, err
	}
	states := f.SearchedStates()
	var parts []string
	switch {
	case len(states) == 0 && f.Reason != "" && namesJobs(f):
		// Only waiting and unsuccessful runs have a reason.
		parts = []string{q.ofJobs(" AND r.state = 'waiting'"), q.ofJobs(ended)}
	case len(states) == 0:
		return q.ofJobs(""), args, nil
	}
	contains := ""
	if f.Error != "" {
		contains = " WHERE instr(lower(error), lower(" + q.arg(f.Error) + ")) > 0"
	}
	for _, state := range slices.Compact(slices.Sorted(slices.Values(states))) {
		condition := " AND r.state = " + q.arg(state)
		switch {
		case state == jobs.Succeeded && namesJobs(f):
			// They are most of the history of all jobs.
			condition = " AND +r.state = " + q.arg(state)
		case state.Final() && state != jobs.Succeeded:
			condition += ended
		}
		if f.Error != "" {
			q.order = fmt.Sprintf("%s LIMIT %d", order, storage.Searched(state))
		}
		parts = append(parts, q.ofJobs(condition))
	}
	for i, part := range parts {
		parts[i] = "SELECT * FROM (" + part + ")" + contains
	}
	return strings.Join(parts, " UNION ALL ") + page, args, nil
}

// namesJobs reports whether the filter selects jobs by name, resource, group or prefix.
func namesJobs(f storage.RunFilter) bool { return f.Job != "" || ofJobs(f) }

// pageOfRuns assembles the parts of a page's query.
type pageOfRuns struct {
	arg   func(any) string
	index string // the index to use, or "" for any
	where string
	order string
	names string // asks for the names of the jobs; "" if the filter selects no jobs
}

func (q *pageOfRuns) narrow(f storage.RunFilter) {
	other := ""
	if namesJobs(f) {
		other = "+" // SQLite must not prefer the index of this column to an index of the job
	}
	if f.Job != "" {
		q.where += " AND r.job = " + q.arg(f.Job)
	}
	if f.Replica != "" {
		q.where += " AND " + other + "r.replica = " + q.arg(f.Replica)
	}
	if f.Reason != "" {
		// as in the condition of the index
		q.where += " AND " + other + "r.reason = " + q.arg(f.Reason) + " AND r.reason <> ''"
	}
	if f.Later != nil {
		q.where += " AND (r.state = 'waiting' AND r.key <> '' AND r.wait_since > " +
			q.arg(micros(time.Now())) + ") = " + q.arg(*f.Later)
	}
	if f.Backfill != uuid.Nil {
		// SQLite would prefer the index of a job or state, which has far more runs
		q.index = " INDEXED BY holdfast_runs_backfill"
		q.where += " AND r.backfill = " + q.arg(f.Backfill)
	}
	if !f.From.IsZero() {
		q.where += " AND r.created_at >= " + q.arg(micros(f.From))
	}
	if !f.Until.IsZero() {
		q.where += " AND r.created_at < " + q.arg(micros(f.Until))
	}
	if f.Before != nil {
		q.where += " AND (r.created_at, r.id) < (" + q.arg(micros(f.Before.CreatedAt)) + ", " +
			q.arg(f.Before.ID) + ")"
	}
	if f.After != nil {
		q.where += " AND (r.created_at, r.id) > (" + q.arg(micros(f.After.CreatedAt)) + ", " +
			q.arg(f.After.ID) + ")"
	}
}

// selectJobs sets names to the jobs, removed ones included, that the filter selects by resource,
// group or prefix.
func (q *pageOfRuns) selectJobs(f storage.RunFilter) error {
	if f.Resource == nil && f.Group == "" && f.JobPrefix == "" {
		return nil
	}
	q.names = "SELECT j.name FROM holdfast_jobs j"
	if f.Resource != nil || f.Group != "" {
		q.names += " CROSS JOIN holdfast_definitions d ON d.job = j.name " +
			"AND d.version = abs(j.version)"
	}
	q.names += " WHERE true"
	if f.JobPrefix != "" {
		prefix := q.arg(f.JobPrefix)
		q.names += fmt.Sprintf(" AND substr(j.name, 1, length(%[1]s)) = %[1]s", prefix)
	}
	if f.Group != "" {
		q.names += " AND d.job_group = " + q.arg(f.Group)
	}
	if f.Resource != nil {
		keys, err := encode(relatedKeys(*f.Resource))
		if err != nil {
			return err
		}
		q.names += fmt.Sprintf(locksRelated, q.arg(keys), q.arg(f.Resource.Key()+"/"))
	}
	return nil
}

// ofJobs adds one part for each named job, so that each part scans its own index.
func (q *pageOfRuns) ofJobs(condition string) string {
	if q.names == "" {
		return selectRuns + q.index + q.where + condition + q.order
	}
	each := "SELECT r.id FROM holdfast_runs r" + q.where + " AND r.job = named.name" + condition +
		q.order
	return selectRuns + " WHERE r.id IN (SELECT o.id FROM (" + q.names +
		") named CROSS JOIN holdfast_runs o ON o.id IN (" + each + "))" + q.order
}

// relatedKeys returns the keys of the resource and of its ancestors.
func relatedKeys(resource locking.Resource) []string {
	keys := []string{resource.Key()}
	for _, above := range resource.Ancestors() {
		keys = append(keys, above.Key())
	}
	return keys
}

func (s *Store) records(ctx context.Context, query string, args ...any) ([]storage.Record, error) {
	var records []storage.Record
	err := each(ctx, s.readers, query, args, func(rows *sql.Rows) error {
		run, err := scanRunRow(rows)
		records = append(records, run.Record)
		return err
	})
	return records, err
}

// Run implements storage.History.
func (s *Store) Run(ctx context.Context, id uuid.UUID) (storage.Record, error) {
	records, err := recordsOf(ctx, s.readers, []uuid.UUID{id})
	if err == nil && len(records) == 0 {
		err = storage.ErrNotFound
	}
	if err != nil {
		return storage.Record{}, wrap("run "+id.String(), err)
	}
	record := records[0]
	var result sql.NullString
	err = s.readers.QueryRowContext(ctx, readOutput, id).Scan(&record.Output, &result)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	if result.Valid {
		record.Result = json.RawMessage(result.String)
	}
	return record, wrap("output of run "+id.String(), err)
}

// Replicas implements storage.History.
func (s *Store) Replicas(ctx context.Context) ([]storage.ReplicaView, error) {
	since := micros(time.Now().Add(-storage.SessionsKept))
	replicas, err := s.replicas(ctx, listReplicas, since)
	return replicas, wrap("list replicas", err)
}

func (s *Store) replicas(ctx context.Context, query string, args ...any) (
	replicas []storage.ReplicaView, err error) {
	err = each(ctx, s.readers, query, args, func(rows *sql.Rows) error {
		var v storage.ReplicaView
		var started, heartbeat, expires int64
		var ended sql.NullInt64
		var databases string
		err := rows.Scan(&v.Session, &v.Name, &v.Version, &started, &heartbeat, &expires, &ended,
			&v.Stopped, &v.LockServers,
			&v.ConfigHash, &v.Draining, &v.ClockOffset, &v.Workers, &v.Busy, &v.NotReady,
			&v.Stopping, &databases, &v.Running)
		v.Databases = storage.DecodeDatabases(databases)
		if err != nil {
			return err
		}
		if known, live := s.sessions.get(v.Session); live { // the file may be behind
			heartbeat = micros(known.heartbeat)
			v.ClockOffset, v.Workers, v.Busy, v.NotReady = known.replicaStatus.OffsetMilliseconds(),
				known.replicaStatus.Workers, known.replicaStatus.Busy, known.replicaStatus.NotReady
			v.Stopping, v.Databases = known.replicaStatus.Stopping, known.replicaStatus.Databases
		}
		v.StartedAt, v.LastHeartbeat = fromMicros(started), fromMicros(heartbeat)
		v.ExpiresAt, v.EndedAt = s.expiry(v.Session, expires), fromNullMicros(ended)
		replicas = append(replicas, v)
		return nil
	})
	return replicas, err
}
