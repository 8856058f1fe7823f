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
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	// byCreation holds for all runs. It allows a statement to use the indexes of all runs by the
	// time of their creation, which a search by id must not use.
	byCreation = `created_at > '-infinity'`

	recordColumns = columnsBeforeWait + `
        CASE WHEN r.state = 'waiting' THEN (SELECT w.since FROM holdfast.waits w
            WHERE w.run = r.id) END` + columnsAfterWait

	columnsBeforeWait = `
    r.id, r.job, r.scheduled_at, r.key, r.state, r.recovery, r.attempt, r.replica, r.token,
        r.created_at, r.started_at, r.finished_at, r.retry_waits,
    r.reason, r.detail, r.blocker, r.blocked_at, r.error, r.params, r.waited, r.start_by,`
	columnsAfterWait = `, r.backfill, r.key_actor`

	selectRuns = `SELECT` + recordColumns + `, '', NULL::text FROM holdfast.runs r`

	// selectWaiting reads the row of each wait once. A join may scan all runs, because the number
	// of waiting runs changes faster than the statistics of the planner.
	selectWaiting = `SELECT` + columnsBeforeWait + ` w.since` + columnsAfterWait + `, '', NULL::text
FROM holdfast.waits w CROSS JOIN LATERAL (
    SELECT * FROM holdfast.runs WHERE id = w.run AND state = 'waiting' OFFSET 0) r`

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

	// listReplicas reads the claims once, because their table also has many deleted rows.
	listReplicas = `
SELECT s.id, s.replica, s.version, s.started_at, s.renewed_at, s.expires_at, s.ended_at, s.stopped,
    s.lock_servers,
    s.config_hash, s.draining, s.clock_offset_ms, s.workers, s.busy, s.not_ready,
    s.databases::text, coalesce(n.runs, 0)
FROM holdfast.sessions s LEFT JOIN (
    SELECT session, count(*) AS runs FROM holdfast.claims WHERE owner IS NULL GROUP BY session) n
    ON n.session = s.id
WHERE s.ended_at IS NULL OR s.ended_at > clock_timestamp() - $1::interval AND NOT s.removed
ORDER BY s.replica, s.started_at, s.id`
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

// Runs implements storage.History.
func (s *Store) Runs(ctx context.Context, f storage.RunFilter) ([]storage.Record, error) {
	if f.Resource != nil || f.Group != "" || f.JobPrefix != "" {
		return s.runsOfJobs(ctx, f)
	}
	return s.pageOf(ctx, f, nil)
}

// pageOf returns a page of the runs, of the named jobs if there are names.
func (s *Store) pageOf(ctx context.Context, f storage.RunFilter,
	names []string) ([]storage.Record, error) {
	query, args := runsQuery(f, names)
	if query == "" {
		return nil, nil
	}
	rows, err := s.views.Query(ctx, query,
		append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
	if err != nil {
		return nil, wrap("list runs", err)
	}
	records, err := pgx.CollectRows(rows, scanRecord)
	if backwards(f.Before != nil, f.After != nil) {
		slices.Reverse(records)
	}
	return records, wrap("list runs", err)
}

// runsQuery has one part for each state, so that each part scans an index from its end and stops at
// the limit, however long the history is. Succeeded runs have no index of their own, because they
// are most of the history. It returns no query if no run can match the filter.
func runsQuery(f storage.RunFilter, names []string) (string, []any) {
	var args []any
	q := pageOfRuns{where: " WHERE true", arg: func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}}
	states := f.SearchedStates()
	order := " ORDER BY " + q.find(f, names == nil && f.Reason == "" &&
		!slices.ContainsFunc(states, func(s jobs.State) bool { return s != jobs.Succeeded }))
	page := fmt.Sprintf("%s LIMIT %d", order, storage.PageSize(f.Limit))
	if q.order = page; f.Error != "" {
		q.order = fmt.Sprintf("%s LIMIT %d", order, storage.MaxSearched)
	}
	if names != nil {
		q.names = "SELECT unnest(" + q.arg(names) + `::text[]) COLLATE "C" AS name`
	}
	var parts []string
	switch {
	case len(states) == 0 && f.Reason == "":
		parts = []string{q.ofJobs("")}
	case len(states) == 0:
		parts = []string{q.active(jobs.Waiting, " AND r.reason = "+q.arg(f.Reason)),
			q.ofJobs(q.caused(f))}
	}
	for _, state := range slices.Compact(slices.Sorted(slices.Values(states))) {
		if state == jobs.Succeeded && f.Reason != "" {
			continue // a succeeded run has no reason
		}
		condition := ""
		switch {
		case f.Reason != "" && state.Final():
			condition = q.caused(f)
		case f.Reason != "":
			condition = " AND r.reason = " + q.arg(f.Reason)
		}
		if state.Final() {
			parts = append(parts, q.ofJobs(" AND "+inState(state, q.arg)+condition))
		} else {
			parts = append(parts, q.active(state, condition))
		}
	}
	if len(parts) == 0 {
		return "", nil
	}
	contains := ""
	if f.Error != "" {
		contains = " WHERE " + hasError(q.arg(f.Error))
	} else if len(parts) == 1 {
		return parts[0], args
	}
	for i, part := range parts {
		parts[i] = "SELECT * FROM (" + part + ") part" + contains
	}
	return strings.Join(parts, " UNION ALL ") + page, args
}

// hasError is the condition that the error contains a text.
func hasError(text string) string {
	return `strpos(lower(error COLLATE "C"), lower(` + text + `::text COLLATE "C")) > 0`
}

// pageOfRuns assembles the parts of a page's query.
type pageOfRuns struct {
	arg   func(any) string
	where string
	later string // the argument that says whether runs for a later time are searched; "": both
	order string
	names string // asks for the names of the jobs; "" if the filter selects no jobs
}

// find adds the conditions of the filter and returns the order. If wide is true, many runs have the
// other conditions.
func (q *pageOfRuns) find(f storage.RunFilter, wide bool) (order string) {
	replica, back := f.Replica, backwards(f.Before != nil, f.After != nil)
	wide = wide && replica != "" && f.Job == "" && f.Backfill == uuid.Nil
	if wide {
		f.Replica = ""
	}
	q.narrow(f)
	switch {
	case wide && back:
		q.ofReplica(f, replica)
		return "replica, created_at, id"
	case wide:
		q.ofReplica(f, replica)
		return "replica DESC, created_at DESC, id DESC"
	case back:
		return "created_at, id"
	}
	return "created_at DESC, id DESC"
}

// ofReplica adds the conditions of the runs of a replica as ranges, and the order begins with the
// replica, so that the planner uses the index of replicas. With an equation it reads the newest
// runs of all replicas, which takes seconds if this replica has not run for long.
func (q *pageOfRuns) ofReplica(f storage.RunFilter, replica string) {
	name := q.arg(replica)
	bound := func(columns, operator string, values ...any) {
		list := name
		for _, v := range values {
			list += ", " + q.arg(v)
		}
		q.where += " AND (r.replica" + columns + ") " + operator + " (" + list + ")"
	}
	switch {
	case f.After != nil:
		bound(", r.created_at, r.id", ">", f.After.CreatedAt, f.After.ID)
	case !f.From.IsZero():
		bound(", r.created_at", ">=", f.From)
	default:
		bound("", ">=")
	}
	switch {
	case f.Before != nil:
		bound(", r.created_at, r.id", "<", f.Before.CreatedAt, f.Before.ID)
	case !f.Until.IsZero():
		bound(", r.created_at", "<", f.Until)
	default:
		bound("", "<=")
	}
}

func (q *pageOfRuns) narrow(f storage.RunFilter) {
	if f.Job != "" {
		q.where += " AND r.job = " + q.arg(f.Job)
	}
	if f.Replica != "" {
		q.where += " AND r.replica = " + q.arg(f.Replica)
	}
	if f.Later != nil {
		q.later = q.arg(*f.Later)
	}
	if f.Backfill != uuid.Nil {
		q.where += " AND r.backfill = " + q.arg(f.Backfill)
	}
	if !f.From.IsZero() {
		q.where += " AND r.created_at >= " + q.arg(f.From)
	}
	if !f.Until.IsZero() {
		q.where += " AND r.created_at < " + q.arg(f.Until)
	}
	if f.Before != nil {
		q.where += " AND (r.created_at, r.id) < (" + q.arg(f.Before.CreatedAt) + ", " +
			q.arg(f.Before.ID) + ")"
	}
	if f.After != nil {
		q.where += " AND (r.created_at, r.id) > (" + q.arg(f.After.CreatedAt) + ", " +
			q.arg(f.After.ID) + ")"
	}
}

// ofJobs adds one part for each named job, so that each part scans its own index.
func (q *pageOfRuns) ofJobs(condition string) string {
	condition += q.isLater() + " AND r." + byCreation
	if q.names == "" {
		return selectRuns + q.where + condition + q.order
	}
	each := "SELECT r.id, r.created_at FROM holdfast.runs r" + q.where + " AND r.job = named.name" +
		condition + q.order
	page := "SELECT p.id FROM (" + q.names + ") named CROSS JOIN LATERAL (" + each + ") p" + q.order
	return selectRuns + " WHERE r.id IN (" + page + ")" + q.order
}

// caused is the condition that the run ended for the reason. With named jobs it uses each job's
// index of unsuccessful runs, because the index by cause has those of all jobs.
func (q *pageOfRuns) caused(f storage.RunFilter) string {
	if f.Job != "" || q.names != "" {
		return " AND r.unsuccessful_state IS NOT NULL AND r.reason = " + q.arg(f.Reason)
	}
	return " AND r.cause = " + q.arg(f.Reason)
}

// active reads waiting or running runs, of which there are few.
func (q *pageOfRuns) active(state jobs.State, condition string) string {
	if q.names != "" {
		condition += " AND r.job = ANY(ARRAY(" + q.names + "))"
	}
	if state == jobs.Waiting {
		if q.later != "" {
			condition += " AND (" + waitsForLater + ") = " + q.later
		}
		return selectWaiting + q.where + condition + q.order
	}
	return selectRuns + q.where + " AND " + inState(state, q.arg) + condition + q.isLater() +
		q.order
}

// waitsForLater is the condition that a run was triggered for a time that has not come.
const waitsForLater = "w.triggered AND w.since > clock_timestamp()"

// isLater is the condition of RunFilter.Later for runs in any state.
func (q *pageOfRuns) isLater() string {
	if q.later == "" {
		return ""
	}
	return " AND (r.state = 'waiting' AND EXISTS (SELECT FROM holdfast.waits w " +
		"WHERE w.run = r.id AND " + waitsForLater + ")) = " + q.later
}

// inState is the condition that the run is in the state, which is not waiting. Running runs are
// found by the table of claims.
func inState(state jobs.State, arg func(any) string) string {
	switch state {
	case jobs.Running:
		return "r.id = ANY(ARRAY(SELECT run FROM holdfast.claims)) AND r.state = 'running'"
	case jobs.Succeeded:
		return "r.state = 'succeeded'"
	default:
		return "r.unsuccessful_state = " + arg(state)
	}
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
	replicas, err := pgx.CollectRows(rows,
		func(row pgx.CollectableRow) (storage.ReplicaView, error) {
			var v storage.ReplicaView
			var databases string
			err := row.Scan(&v.Session, &v.Name, &v.Version, &v.StartedAt, &v.LastHeartbeat,
				&v.ExpiresAt,
				&v.EndedAt, &v.Stopped, &v.LockServers,
				&v.ConfigHash, &v.Draining, &v.ClockOffset, &v.Workers, &v.Busy, &v.NotReady,
				&databases, &v.Running)
			if err == nil {
				v.Databases, err = storage.DecodeDatabases(databases)
			}
			v.StartedAt, v.LastHeartbeat = v.StartedAt.UTC(), v.LastHeartbeat.UTC()
			v.ExpiresAt, v.EndedAt = v.ExpiresAt.UTC(), utc(v.EndedAt)
			return v, err
		})
	return replicas, wrap("list replicas", err)
}
