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

// Store is a jobs.Store that times each operation of this replica's scheduler, page
// and operators. It does not embed the store, so that a new method of jobs.Store
// must be timed too.
type Store struct {
	inner   storage.Store
	metrics *Metrics
}

var _ storage.Store = (*Store)(nil)

// Store returns inner, timed.
func (m *Metrics) Store(inner storage.Store) *Store { return &Store{inner, m} }

// ClusterID implements jobs.Store. It is known since the store was opened.
func (s *Store) ClusterID() uuid.UUID { return s.inner.ClusterID() }

// Close implements jobs.Store.
func (s *Store) Close() { s.inner.Close() }

// Listen implements jobs.Store. It is not timed: it lasts as long as it can.
func (s *Store) Listen(ctx context.Context, heard func()) error {
	return s.inner.Listen(ctx, heard)
}

// Start implements jobs.Store. It counts the answers too.
func (s *Store) Start(ctx context.Context, session uuid.UUID,
	requests []storage.StartRequest) ([]storage.StartResult, error) {
	begun := time.Now()
	results, err := s.inner.Start(ctx, session, requests)
	s.metrics.asked("start", begun, err)
	for _, r := range results {
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

// Sweep implements jobs.Store. It counts the dead sessions too.
func (s *Store) Sweep(ctx context.Context) (storage.Swept, error) {
	begun := time.Now()
	swept, err := s.inner.Sweep(ctx)
	s.metrics.asked("sweep", begun, err)
	s.metrics.swept.WithLabelValues().Add(float64(len(swept.Sessions)))
	return swept, err
}

// Open implements jobs.Store.
func (s *Store) Open(ctx context.Context, session storage.Session) error {
	begun := time.Now()
	err := s.inner.Open(ctx, session)
	s.metrics.asked("open", begun, err)
	return err
}

// Heartbeat implements jobs.Store.
func (s *Store) Heartbeat(ctx context.Context, session uuid.UUID,
	v storage.ReplicaStatus) (storage.Beat, error) {
	begun := time.Now()
	answer, err := s.inner.Heartbeat(ctx, session, v)
	s.metrics.asked("heartbeat", begun, err)
	return answer, err
}

// End implements jobs.Store.
func (s *Store) End(ctx context.Context, session uuid.UUID) error {
	begun := time.Now()
	err := s.inner.End(ctx, session)
	s.metrics.asked("end", begun, err)
	return err
}

// Living implements jobs.Store.
func (s *Store) Living(ctx context.Context, sessions []uuid.UUID) ([]uuid.UUID, error) {
	begun := time.Now()
	answer, err := s.inner.Living(ctx, sessions)
	s.metrics.asked("living", begun, err)
	return answer, err
}

// Register implements jobs.Store.
func (s *Store) Register(ctx context.Context, session uuid.UUID,
	definitions []storage.Definition) (map[string]int64, error) {
	begun := time.Now()
	answer, err := s.inner.Register(ctx, session, definitions)
	s.metrics.asked("register", begun, err)
	return answer, err
}

// Withdraw implements jobs.Store.
func (s *Store) Withdraw(ctx context.Context, session uuid.UUID, table string,
	names []string) error {
	begun := time.Now()
	err := s.inner.Withdraw(ctx, session, table, names)
	s.metrics.asked("withdraw", begun, err)
	return err
}

// Versions implements jobs.Store.
func (s *Store) Versions(ctx context.Context) (map[string]storage.ActiveDefinition, error) {
	begun := time.Now()
	answer, err := s.inner.Versions(ctx)
	s.metrics.asked("versions", begun, err)
	return answer, err
}

// Note implements jobs.Store.
func (s *Store) Note(ctx context.Context, session uuid.UUID, notes []storage.Note) ([]bool, error) {
	begun := time.Now()
	answer, err := s.inner.Note(ctx, session, notes)
	s.metrics.asked("note", begun, err)
	return answer, err
}

// Finish implements jobs.Store.
func (s *Store) Finish(ctx context.Context, requests []storage.FinishRequest) ([]bool, error) {
	begun := time.Now()
	answer, err := s.inner.Finish(ctx, requests)
	s.metrics.asked("finish", begun, err)
	return answer, err
}

// Adopt implements jobs.Store.
func (s *Store) Adopt(ctx context.Context, session uuid.UUID,
	a storage.Adoption) ([]jobs.Record, error) {
	begun := time.Now()
	answer, err := s.inner.Adopt(ctx, session, a)
	s.metrics.asked("adopt", begun, err)
	return answer, err
}

// CheckMisfires implements jobs.Store.
func (s *Store) CheckMisfires(ctx context.Context, checks []storage.MisfireCheck,
	find func(job string, c storage.Cursor) []storage.Misfired) (map[string]time.Time, error) {
	begun := time.Now()
	answer, err := s.inner.CheckMisfires(ctx, checks, find)
	s.metrics.asked("check_misfires", begun, err)
	return answer, err
}

// Revoke implements jobs.Store.
func (s *Store) Revoke(ctx context.Context, token jobs.Token, state jobs.State,
	reason jobs.Reason) error {
	begun := time.Now()
	err := s.inner.Revoke(ctx, token, state, reason)
	s.metrics.asked("revoke", begun, err)
	return err
}

// Prune implements jobs.Store.
func (s *Store) Prune(ctx context.Context, session uuid.UUID,
	r storage.PruneRequest) (storage.Pruned, error) {
	begun := time.Now()
	answer, err := s.inner.Prune(ctx, session, r)
	s.metrics.asked("prune", begun, err)
	return answer, err
}

// OpenFirings implements jobs.Store.
func (s *Store) OpenFirings(ctx context.Context,
	dependents []storage.Dependent) (map[string]storage.OpenFirings, error) {
	begun := time.Now()
	answer, err := s.inner.OpenFirings(ctx, dependents)
	s.metrics.asked("open_firings", begun, err)
	return answer, err
}

// AddDependents implements jobs.Store.
func (s *Store) AddDependents(ctx context.Context, followed []storage.DependentFiring) error {
	begun := time.Now()
	err := s.inner.AddDependents(ctx, followed)
	s.metrics.asked("add_dependents", begun, err)
	return err
}

// ControlState implements jobs.Store.
func (s *Store) ControlState(ctx context.Context, session uuid.UUID,
	since int64) (storage.ControlState, error) {
	begun := time.Now()
	answer, err := s.inner.ControlState(ctx, session, since)
	s.metrics.asked("control_state", begun, err)
	return answer, err
}

// Pauses implements jobs.Store.
func (s *Store) Pauses(ctx context.Context, job, group string, from,
	until time.Time) ([]storage.Pause, error) {
	begun := time.Now()
	answer, err := s.inner.Pauses(ctx, job, group, from, until)
	s.metrics.asked("pauses", begun, err)
	return answer, err
}

// Audit implements jobs.Store.
func (s *Store) Audit(ctx context.Context, f storage.AuditFilter) ([]storage.Audited, error) {
	begun := time.Now()
	answer, err := s.inner.Audit(ctx, f)
	s.metrics.asked("audit", begun, err)
	return answer, err
}

// Saved implements jobs.Store.
func (s *Store) Saved(ctx context.Context, job string) (json.RawMessage, error) {
	begun := time.Now()
	answer, err := s.inner.Saved(ctx, job)
	s.metrics.asked("saved", begun, err)
	return answer, err
}

// Now implements jobs.Store.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	begun := time.Now()
	answer, err := s.inner.Now(ctx)
	s.metrics.asked("now", begun, err)
	return answer, err
}

// Locks implements jobs.Store.
func (s *Store) Locks(ctx context.Context) ([]storage.LockView, error) {
	begun := time.Now()
	answer, err := s.inner.Locks(ctx)
	s.metrics.asked("locks", begun, err)
	return answer, err
}

// Jobs implements jobs.Store.
func (s *Store) Jobs(ctx context.Context) ([]storage.JobView, error) {
	begun := time.Now()
	answer, err := s.inner.Jobs(ctx)
	s.metrics.asked("jobs", begun, err)
	return answer, err
}

// Runs implements jobs.Store.
func (s *Store) Runs(ctx context.Context, f storage.RunFilter) ([]jobs.Record, error) {
	begun := time.Now()
	answer, err := s.inner.Runs(ctx, f)
	s.metrics.asked("runs", begun, err)
	return answer, err
}

// Run implements jobs.Store.
func (s *Store) Run(ctx context.Context, id uuid.UUID) (jobs.Record, error) {
	begun := time.Now()
	answer, err := s.inner.Run(ctx, id)
	s.metrics.asked("run", begun, err)
	return answer, err
}

// Firing implements jobs.Store.
func (s *Store) Firing(ctx context.Context, job string,
	scheduledAt time.Time) (storage.FiringView, error) {
	begun := time.Now()
	answer, err := s.inner.Firing(ctx, job, scheduledAt)
	s.metrics.asked("firing", begun, err)
	return answer, err
}

// Replicas implements jobs.Store.
func (s *Store) Replicas(ctx context.Context) ([]storage.ReplicaView, error) {
	begun := time.Now()
	answer, err := s.inner.Replicas(ctx)
	s.metrics.asked("replicas", begun, err)
	return answer, err
}

// Drift implements jobs.Store.
func (s *Store) Drift(ctx context.Context, limit int) ([]storage.JobDrift, error) {
	begun := time.Now()
	answer, err := s.inner.Drift(ctx, limit)
	s.metrics.asked("drift", begun, err)
	return answer, err
}

// ListJobs implements jobs.Store.
func (s *Store) ListJobs(ctx context.Context, f storage.JobFilter) ([]storage.JobView, error) {
	begun := time.Now()
	answer, err := s.inner.ListJobs(ctx, f)
	s.metrics.asked("list_jobs", begun, err)
	return answer, err
}

// Job implements jobs.Store.
func (s *Store) Job(ctx context.Context, name string) (storage.JobView, error) {
	begun := time.Now()
	answer, err := s.inner.Job(ctx, name)
	s.metrics.asked("job", begun, err)
	return answer, err
}

// Groups implements jobs.Store.
func (s *Store) Groups(ctx context.Context) ([]storage.Group, error) {
	begun := time.Now()
	answer, err := s.inner.Groups(ctx)
	s.metrics.asked("groups", begun, err)
	return answer, err
}

// Resources implements jobs.Store.
func (s *Store) Resources(ctx context.Context) ([]locking.Resource, error) {
	begun := time.Now()
	answer, err := s.inner.Resources(ctx)
	s.metrics.asked("resources", begun, err)
	return answer, err
}

// Outcomes implements jobs.Store.
func (s *Store) Outcomes(ctx context.Context, names []string,
	n int) (map[string][]storage.Outcome, error) {
	begun := time.Now()
	answer, err := s.inner.Outcomes(ctx, names, n)
	s.metrics.asked("outcomes", begun, err)
	return answer, err
}

// Tallies implements jobs.Store.
func (s *Store) Tallies(ctx context.Context, since time.Time) ([]storage.Tally, error) {
	begun := time.Now()
	answer, err := s.inner.Tallies(ctx, since)
	s.metrics.asked("tallies", begun, err)
	return answer, err
}

// JobTallies implements jobs.Store.
func (s *Store) JobTallies(ctx context.Context, job string,
	since time.Time) ([]storage.Tally, error) {
	begun := time.Now()
	answer, err := s.inner.JobTallies(ctx, job, since)
	s.metrics.asked("job_tallies", begun, err)
	return answer, err
}

// FiringRuns implements jobs.Store.
func (s *Store) FiringRuns(ctx context.Context, f jobs.Firing) ([]jobs.Record, error) {
	begun := time.Now()
	answer, err := s.inner.FiringRuns(ctx, f)
	s.metrics.asked("firing_runs", begun, err)
	return answer, err
}
