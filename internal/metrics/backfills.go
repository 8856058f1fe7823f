package metrics

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func (s *store) AddBackfill(ctx context.Context, a storage.Action, r storage.BackfillRequest) (
	_ storage.Backfill, err error) {
	defer s.timed("add_backfill", time.Now(), &err)
	return s.inner.AddBackfill(ctx, a, r)
}

func (s *store) AdvanceBackfill(ctx context.Context, step storage.BackfillStep) (
	_ storage.Backfill, err error) {
	defer s.timed("advance_backfill", time.Now(), &err)
	return s.inner.AdvanceBackfill(ctx, step)
}

func (s *store) Backfill(ctx context.Context, id uuid.UUID) (_ storage.Backfill, err error) {
	defer s.timed("backfill", time.Now(), &err)
	return s.inner.Backfill(ctx, id)
}

func (s *store) BackfillTaken(ctx context.Context, job string, from, to time.Time) (
	_ []storage.Outcome, err error) {
	defer s.timed("backfill_taken", time.Now(), &err)
	return s.inner.BackfillTaken(ctx, job, from, to)
}

func (s *store) Backfills(ctx context.Context, f storage.BackfillFilter) (
	_ []storage.Backfill, err error) {
	defer s.timed("backfills", time.Now(), &err)
	return s.inner.Backfills(ctx, f)
}

func (s *store) CancelBackfill(ctx context.Context, a storage.Action, id uuid.UUID) (
	_ storage.Backfill, err error) {
	defer s.timed("cancel_backfill", time.Now(), &err)
	return s.inner.CancelBackfill(ctx, a, id)
}

func (s *store) OpenBackfills(ctx context.Context) (_ []storage.OpenBackfill, err error) {
	defer s.timed("open_backfills", time.Now(), &err)
	return s.inner.OpenBackfills(ctx)
}
