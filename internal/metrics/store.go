package metrics

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// store is a storage.Store that times each call of this replica's scheduler, page and operators. It
// does not embed the store, so that a new method must be timed too.
type store struct {
	inner   storage.Store
	metrics *Metrics
}

// Store returns inner, timed.
func (m *Metrics) Store(inner storage.Store) storage.Store { return &store{inner, m} }

// timed counts a call that has ended with *err. Methods defer it.
func (s *store) timed(operation string, start time.Time, err *error) {
	s.metrics.asked(operation, start, *err)
}

// ClusterID is not timed: it is known since the store was opened.
func (s *store) ClusterID() uuid.UUID { return s.inner.ClusterID() }

func (s *store) Close() { s.inner.Close() }

// Listen is not timed: it lasts as long as it can.
func (s *store) Listen(ctx context.Context, heard func()) error {
	return s.inner.Listen(ctx, heard)
}

// Start counts the answers too.
func (s *store) Start(ctx context.Context, session uuid.UUID,
	requests []storage.StartRequest) (results []storage.StartResult, err error) {
	defer s.timed("start", time.Now(), &err)
	results, err = s.inner.Start(ctx, session, requests)
	for _, r := range results {
		if r.Outcome == storage.StartUndecided {
			continue // the next request for the run decides
		}
		s.metrics.starts.WithLabelValues(outcomeOf(r)).Inc()
	}
	return results, err
}

// outcomeOf returns the label for a result, or for a wait its reason.
func outcomeOf(r storage.StartResult) string {
	switch r.Outcome {
	case storage.StartGranted:
		return "granted"
	case storage.StartBlocked:
		return string(r.Reason)
	case storage.StartDuplicate:
		return "duplicate"
	case storage.StartStale:
		return "stale"
	case storage.StartPaused:
		return "paused"
	default:
		return "no_session"
	}
}

// Sweep counts the dead sessions too.
func (s *store) Sweep(ctx context.Context) (swept storage.Swept, err error) {
	defer s.timed("sweep", time.Now(), &err)
	swept, err = s.inner.Sweep(ctx)
	s.metrics.swept.WithLabelValues().Add(float64(len(swept.Sessions)))
	return swept, err
}

func (s *store) ExpireDisconnected(ctx context.Context, session uuid.UUID) (
	_ storage.Disconnected, err error) {
	defer s.timed("expire_disconnected", time.Now(), &err)
	return s.inner.ExpireDisconnected(ctx, session)
}

func (s *store) Open(ctx context.Context, session storage.Session) (err error) {
	defer s.timed("open", time.Now(), &err)
	return s.inner.Open(ctx, session)
}

func (s *store) Heartbeat(ctx context.Context, session uuid.UUID, v storage.ReplicaStatus) (
	_ storage.HeartbeatReply, err error) {
	defer s.timed("heartbeat", time.Now(), &err)
	return s.inner.Heartbeat(ctx, session, v)
}

func (s *store) End(ctx context.Context, session uuid.UUID) (err error) {
	defer s.timed("end", time.Now(), &err)
	return s.inner.End(ctx, session)
}

func (s *store) LiveSessions(ctx context.Context, sessions []uuid.UUID) (_ []uuid.UUID, err error) {
	defer s.timed("live_sessions", time.Now(), &err)
	return s.inner.LiveSessions(ctx, sessions)
}

func (s *store) Register(ctx context.Context, session uuid.UUID, definitions []storage.Definition) (
	_ map[string]int64, err error) {
	defer s.timed("register", time.Now(), &err)
	return s.inner.Register(ctx, session, definitions)
}

func (s *store) Withdraw(ctx context.Context, session uuid.UUID, table string, names []string) (
	err error) {
	defer s.timed("withdraw", time.Now(), &err)
	return s.inner.Withdraw(ctx, session, table, names)
}

func (s *store) Versions(ctx context.Context) (_ map[string]storage.ActiveDefinition, err error) {
	defer s.timed("versions", time.Now(), &err)
	return s.inner.Versions(ctx)
}

func (s *store) Note(ctx context.Context, session uuid.UUID, notes []storage.Note) (
	_ []bool, err error) {
	defer s.timed("note", time.Now(), &err)
	return s.inner.Note(ctx, session, notes)
}

func (s *store) Finish(ctx context.Context, requests []storage.FinishRequest) (
	_ []bool, err error) {
	defer s.timed("finish", time.Now(), &err)
	return s.inner.Finish(ctx, requests)
}

func (s *store) Begun(ctx context.Context, firings []storage.Firing) (_ []bool, err error) {
	defer s.timed("begun", time.Now(), &err)
	return s.inner.Begun(ctx, firings)
}

func (s *store) Claims(ctx context.Context, runs []uuid.UUID) (_ []storage.RunClaim, err error) {
	defer s.timed("claims", time.Now(), &err)
	return s.inner.Claims(ctx, runs)
}

func (s *store) Adopt(ctx context.Context, session uuid.UUID, a storage.Adoption) (
	_ []storage.Record, err error) {
	defer s.timed("adopt", time.Now(), &err)
	return s.inner.Adopt(ctx, session, a)
}

func (s *store) CheckMisfires(ctx context.Context, checks []storage.MisfireCheck,
	find func(job string, c storage.Cursor) []storage.Misfired) (
	_ map[string]time.Time, err error) {
	defer s.timed("check_misfires", time.Now(), &err)
	return s.inner.CheckMisfires(ctx, checks, find)
}

func (s *store) Revoke(ctx context.Context, token jobs.Token, state jobs.State,
	reason jobs.Reason) (err error) {
	defer s.timed("revoke", time.Now(), &err)
	return s.inner.Revoke(ctx, token, state, reason)
}

func (s *store) Prune(ctx context.Context, session uuid.UUID, r storage.PruneRequest) (
	_ storage.Pruned, err error) {
	defer s.timed("prune", time.Now(), &err)
	return s.inner.Prune(ctx, session, r)
}

func (s *store) OpenFirings(ctx context.Context, dependents []storage.Dependent) (
	_ map[string]storage.OpenFirings, err error) {
	defer s.timed("open_firings", time.Now(), &err)
	return s.inner.OpenFirings(ctx, dependents)
}

func (s *store) AddDependents(ctx context.Context, firings []storage.DependentFiring) (err error) {
	defer s.timed("add_dependents", time.Now(), &err)
	return s.inner.AddDependents(ctx, firings)
}

func (s *store) ControlState(ctx context.Context, session uuid.UUID, since int64) (
	_ storage.ControlState, err error) {
	defer s.timed("control_state", time.Now(), &err)
	return s.inner.ControlState(ctx, session, since)
}

func (s *store) Pauses(ctx context.Context, job, group string, from, until time.Time) (
	_ []storage.Pause, err error) {
	defer s.timed("pauses", time.Now(), &err)
	return s.inner.Pauses(ctx, job, group, from, until)
}

func (s *store) SealAudit(ctx context.Context, limit int) (_ int, err error) {
	defer s.timed("seal_audit", time.Now(), &err)
	return s.inner.SealAudit(ctx, limit)
}

func (s *store) UnsealedAge(ctx context.Context) (_ time.Duration, err error) {
	defer s.timed("unsealed_age", time.Now(), &err)
	return s.inner.UnsealedAge(ctx)
}

func (s *store) AuditChain(ctx context.Context) (_ storage.ChainState, err error) {
	defer s.timed("audit_chain", time.Now(), &err)
	return s.inner.AuditChain(ctx)
}

func (s *store) AuditLinks(ctx context.Context, after int64, limit int) (
	_ []storage.AuditLink, err error) {
	defer s.timed("audit_links", time.Now(), &err)
	return s.inner.AuditLinks(ctx, after, limit)
}

func (s *store) Audit(ctx context.Context, f storage.AuditFilter) (_ []storage.Audited, err error) {
	defer s.timed("audit", time.Now(), &err)
	return s.inner.Audit(ctx, f)
}

func (s *store) Saved(ctx context.Context, job string) (_ json.RawMessage, err error) {
	defer s.timed("saved", time.Now(), &err)
	return s.inner.Saved(ctx, job)
}

func (s *store) PreviousSuccess(ctx context.Context, job string,
	before time.Time) (_ time.Time, err error) {
	defer s.timed("previous_success", time.Now(), &err)
	return s.inner.PreviousSuccess(ctx, job, before)
}

func (s *store) Now(ctx context.Context) (_ time.Time, err error) {
	defer s.timed("now", time.Now(), &err)
	return s.inner.Now(ctx)
}

func (s *store) Locks(ctx context.Context) (_ []storage.LockView, err error) {
	defer s.timed("locks", time.Now(), &err)
	return s.inner.Locks(ctx)
}

func (s *store) Jobs(ctx context.Context) (_ []storage.JobView, err error) {
	defer s.timed("jobs", time.Now(), &err)
	return s.inner.Jobs(ctx)
}

func (s *store) Runs(ctx context.Context, f storage.RunFilter) (_ []storage.Record, err error) {
	defer s.timed("runs", time.Now(), &err)
	return s.inner.Runs(ctx, f)
}

func (s *store) Run(ctx context.Context, id uuid.UUID) (_ storage.Record, err error) {
	defer s.timed("run", time.Now(), &err)
	return s.inner.Run(ctx, id)
}

func (s *store) Firing(ctx context.Context, job string, scheduledAt time.Time) (
	_ storage.FiringView, err error) {
	defer s.timed("firing", time.Now(), &err)
	return s.inner.Firing(ctx, job, scheduledAt)
}

func (s *store) Replicas(ctx context.Context) (_ []storage.ReplicaView, err error) {
	defer s.timed("replicas", time.Now(), &err)
	return s.inner.Replicas(ctx)
}

func (s *store) ReplicaSessions(ctx context.Context, since time.Time, n int) (
	_ []storage.ReplicaSession, err error) {
	defer s.timed("replica_sessions", time.Now(), &err)
	return s.inner.ReplicaSessions(ctx, since, n)
}

func (s *store) Drift(ctx context.Context, limit int) (_ []storage.JobDrift, err error) {
	defer s.timed("drift", time.Now(), &err)
	return s.inner.Drift(ctx, limit)
}

func (s *store) ListJobs(ctx context.Context, f storage.JobFilter) (
	_ []storage.JobView, err error) {
	defer s.timed("list_jobs", time.Now(), &err)
	return s.inner.ListJobs(ctx, f)
}

func (s *store) Job(ctx context.Context, name string) (_ storage.JobView, err error) {
	defer s.timed("job", time.Now(), &err)
	return s.inner.Job(ctx, name)
}

func (s *store) JobStates(ctx context.Context) (_ []storage.JobState, err error) {
	defer s.timed("job_states", time.Now(), &err)
	return s.inner.JobStates(ctx)
}

func (s *store) Groups(ctx context.Context) (_ []storage.Group, err error) {
	defer s.timed("groups", time.Now(), &err)
	return s.inner.Groups(ctx)
}

func (s *store) Resources(ctx context.Context) (_ []locking.Resource, err error) {
	defer s.timed("resources", time.Now(), &err)
	return s.inner.Resources(ctx)
}

func (s *store) Outcomes(ctx context.Context, of []storage.OutcomesOf, n int) (
	_ map[string][]storage.Outcome, err error) {
	defer s.timed("outcomes", time.Now(), &err)
	return s.inner.Outcomes(ctx, of, n)
}

func (s *store) FailuresBefore(ctx context.Context, runs []storage.RunBefore) (
	_ map[string]storage.FailedRuns, err error) {
	defer s.timed("failures_before", time.Now(), &err)
	return s.inner.FailuresBefore(ctx, runs)
}

func (s *store) EndCounts(ctx context.Context, since time.Time) (_ []storage.EndCount, err error) {
	defer s.timed("end_counts", time.Now(), &err)
	return s.inner.EndCounts(ctx, since)
}

func (s *store) JobEndCounts(ctx context.Context, job string, since time.Time) (
	_ []storage.EndCount, err error) {
	defer s.timed("job_end_counts", time.Now(), &err)
	return s.inner.JobEndCounts(ctx, job, since)
}

func (s *store) EndedJobs(ctx context.Context, f storage.EndedJobsFilter) (
	_ storage.EndedJobs, err error) {
	defer s.timed("ended_jobs", time.Now(), &err)
	return s.inner.EndedJobs(ctx, f)
}

func (s *store) CountRuns(ctx context.Context, parts []storage.JobPart, most int) (
	_ []storage.JobPartCount, err error) {
	defer s.timed("count_runs", time.Now(), &err)
	return s.inner.CountRuns(ctx, parts, most)
}

func (s *store) CountFiltered(ctx context.Context, f storage.RunFilter, most int) (
	_ storage.RunCount, err error) {
	defer s.timed("count_filtered", time.Now(), &err)
	return s.inner.CountFiltered(ctx, f, most)
}

func (s *store) FiringRuns(ctx context.Context, f storage.Firing) (_ []storage.Record, err error) {
	defer s.timed("firing_runs", time.Now(), &err)
	return s.inner.FiringRuns(ctx, f)
}

func (s *store) RunsBetween(ctx context.Context, first, last uuid.UUID, limit int) (
	_ []storage.Record, err error) {
	defer s.timed("runs_between", time.Now(), &err)
	return s.inner.RunsBetween(ctx, first, last, limit)
}

func (s *store) WaitSummaries(ctx context.Context, from time.Time, until time.Time) (
	_ []storage.WaitSummary, err error) {
	defer s.timed("wait_summaries", time.Now(), &err)
	return s.inner.WaitSummaries(ctx, from, until)
}

func (s *store) Histogram(ctx context.Context, from time.Time, until time.Time,
	part time.Duration) (_ []storage.Quarter, err error) {
	defer s.timed("histogram", time.Now(), &err)
	return s.inner.Histogram(ctx, from, until, part)
}

func (s *store) EndedRuns(ctx context.Context, exactly int) (_ storage.EndedRuns, err error) {
	defer s.timed("ended_runs", time.Now(), &err)
	return s.inner.EndedRuns(ctx, exactly)
}

func (s *store) Cancel(ctx context.Context, a storage.Action, run uuid.UUID) (
	_ storage.Record, err error) {
	defer s.timed("cancel", time.Now(), &err)
	return s.inner.Cancel(ctx, a, run)
}

func (s *store) Drain(ctx context.Context, a storage.Action, session uuid.UUID, drain bool) (
	err error) {
	defer s.timed("drain", time.Now(), &err)
	return s.inner.Drain(ctx, a, session, drain)
}

func (s *store) RemoveReplica(ctx context.Context, a storage.Action,
	session uuid.UUID) (err error) {
	defer s.timed("remove_replica", time.Now(), &err)
	return s.inner.RemoveReplica(ctx, a, session)
}

func (s *store) SaveOutput(ctx context.Context, outputs []storage.Output) (err error) {
	defer s.timed("save_output", time.Now(), &err)
	return s.inner.SaveOutput(ctx, outputs)
}

func (s *store) JobRequests(ctx context.Context) (_ []storage.JobRequests, err error) {
	defer s.timed("job_requests", time.Now(), &err)
	return s.inner.JobRequests(ctx)
}

func (s *store) Marks(ctx context.Context) (_ storage.Marks, err error) {
	defer s.timed("marks", time.Now(), &err)
	return s.inner.Marks(ctx)
}

func (s *store) Pause(ctx context.Context, a storage.Action, target storage.Target) (
	_ storage.Pause, err error) {
	defer s.timed("pause", time.Now(), &err)
	return s.inner.Pause(ctx, a, target)
}

func (s *store) PutSpec(ctx context.Context, a storage.Action, spec storage.Spec,
	checks ...storage.SpecCheck) (_ storage.Spec, err error) {
	defer s.timed("put_spec", time.Now(), &err)
	return s.inner.PutSpec(ctx, a, spec, checks...)
}

func (s *store) Release(ctx context.Context, a storage.Action, r storage.ReleaseRequest) (
	_ locking.Released, err error) {
	defer s.timed("release", time.Now(), &err)
	return s.inner.Release(ctx, a, r)
}

func (s *store) RemoveSpec(ctx context.Context, a storage.Action, job string, version int64,
	checks ...storage.SpecCheck) (err error) {
	defer s.timed("remove_spec", time.Now(), &err)
	return s.inner.RemoveSpec(ctx, a, job, version, checks...)
}

func (s *store) Resume(ctx context.Context, a storage.Action, target storage.Target) (
	_ storage.Pause, err error) {
	defer s.timed("resume", time.Now(), &err)
	return s.inner.Resume(ctx, a, target)
}

func (s *store) RunAttempt(ctx context.Context, run uuid.UUID, attempt int) (
	_ storage.RunAttempt, err error) {
	defer s.timed("run_attempt", time.Now(), &err)
	return s.inner.RunAttempt(ctx, run, attempt)
}

func (s *store) RunAttempts(ctx context.Context, run uuid.UUID) (
	_ []storage.RunAttempt, err error) {
	defer s.timed("run_attempts", time.Now(), &err)
	return s.inner.RunAttempts(ctx, run)
}

func (s *store) RunIntervals(ctx context.Context, f storage.RunIntervalFilter) (
	_ []storage.RunInterval, err error) {
	defer s.timed("run_intervals", time.Now(), &err)
	return s.inner.RunIntervals(ctx, f)
}

func (s *store) Trigger(ctx context.Context, a storage.Action, r storage.TriggerRequest) (
	_ storage.Triggered, err error) {
	defer s.timed("trigger", time.Now(), &err)
	return s.inner.Trigger(ctx, a, r)
}

func (s *store) Typical(ctx context.Context, names []string) (
	_ map[string]storage.Typical, err error) {
	defer s.timed("typical", time.Now(), &err)
	return s.inner.Typical(ctx, names)
}

func (s *store) Watch(ctx context.Context, run uuid.UUID) (err error) {
	defer s.timed("watch", time.Now(), &err)
	return s.inner.Watch(ctx, run)
}
