package metrics

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// WaitSummaries implements jobs.Store.
func (s *Store) WaitSummaries(ctx context.Context, from time.Time,
	until time.Time) ([]storage.WaitSummary, error) {
	begun := time.Now()
	answer, err := s.inner.WaitSummaries(ctx, from, until)
	s.metrics.asked("wait_summaries", begun, err)
	return answer, err
}

// Cancel implements jobs.Store.
func (s *Store) Cancel(ctx context.Context, a storage.Action, run uuid.UUID) (jobs.Record, error) {
	begun := time.Now()
	answer, err := s.inner.Cancel(ctx, a, run)
	s.metrics.asked("cancel", begun, err)
	return answer, err
}

// Drain implements jobs.Store.
func (s *Store) Drain(ctx context.Context, a storage.Action, session uuid.UUID, drain bool) error {
	begun := time.Now()
	err := s.inner.Drain(ctx, a, session, drain)
	s.metrics.asked("drain", begun, err)
	return err
}

// SaveOutput implements jobs.Store.
func (s *Store) SaveOutput(ctx context.Context, outputs []storage.Output) error {
	begun := time.Now()
	err := s.inner.SaveOutput(ctx, outputs)
	s.metrics.asked("save_output", begun, err)
	return err
}

// Lockers implements jobs.Store.
func (s *Store) Lockers(ctx context.Context) ([]storage.Locker, error) {
	begun := time.Now()
	answer, err := s.inner.Lockers(ctx)
	s.metrics.asked("lockers", begun, err)
	return answer, err
}

// Marks implements jobs.Store.
func (s *Store) Marks(ctx context.Context) (storage.Marks, error) {
	begun := time.Now()
	answer, err := s.inner.Marks(ctx)
	s.metrics.asked("marks", begun, err)
	return answer, err
}

// Pause implements jobs.Store.
func (s *Store) Pause(ctx context.Context, a storage.Action,
	target storage.Target) (storage.Pause, error) {
	begun := time.Now()
	answer, err := s.inner.Pause(ctx, a, target)
	s.metrics.asked("pause", begun, err)
	return answer, err
}

// PutSpec implements jobs.Store.
func (s *Store) PutSpec(ctx context.Context, a storage.Action, spec storage.Spec,
	checks ...storage.SpecCheck) (storage.Spec, error) {
	begun := time.Now()
	answer, err := s.inner.PutSpec(ctx, a, spec, checks...)
	s.metrics.asked("put_spec", begun, err)
	return answer, err
}

// Release implements jobs.Store.
func (s *Store) Release(ctx context.Context, a storage.Action,
	r storage.ReleaseRequest) (locking.Released, error) {
	begun := time.Now()
	answer, err := s.inner.Release(ctx, a, r)
	s.metrics.asked("release", begun, err)
	return answer, err
}

// RemoveSpec implements jobs.Store.
func (s *Store) RemoveSpec(ctx context.Context, a storage.Action, job string, version int64,
	checks ...storage.SpecCheck) error {
	begun := time.Now()
	err := s.inner.RemoveSpec(ctx, a, job, version, checks...)
	s.metrics.asked("remove_spec", begun, err)
	return err
}

// Resume implements jobs.Store.
func (s *Store) Resume(ctx context.Context, a storage.Action,
	target storage.Target) (storage.Pause, error) {
	begun := time.Now()
	answer, err := s.inner.Resume(ctx, a, target)
	s.metrics.asked("resume", begun, err)
	return answer, err
}

// RunIntervals implements jobs.Store.
func (s *Store) RunIntervals(ctx context.Context,
	f storage.RunIntervalFilter) ([]storage.RunInterval, error) {
	begun := time.Now()
	answer, err := s.inner.RunIntervals(ctx, f)
	s.metrics.asked("run_intervals", begun, err)
	return answer, err
}

// Trigger implements jobs.Store.
func (s *Store) Trigger(ctx context.Context, a storage.Action,
	r storage.TriggerRequest) (storage.Triggered, error) {
	begun := time.Now()
	answer, err := s.inner.Trigger(ctx, a, r)
	s.metrics.asked("trigger", begun, err)
	return answer, err
}

// Typical implements jobs.Store.
func (s *Store) Typical(ctx context.Context, names []string) (map[string]storage.Typical, error) {
	begun := time.Now()
	answer, err := s.inner.Typical(ctx, names)
	s.metrics.asked("typical", begun, err)
	return answer, err
}

// Watch implements jobs.Store.
func (s *Store) Watch(ctx context.Context, run uuid.UUID) error {
	begun := time.Now()
	err := s.inner.Watch(ctx, run)
	s.metrics.asked("watch", begun, err)
	return err
}
