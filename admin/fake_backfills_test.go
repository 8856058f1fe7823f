package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// The backfills of every history.
const activeBackfill, endedBackfill = 9101, 9102

// backfills are an active and an ended backfill.
func backfills() []storage.Backfill {
	from, ended := noon.Add(-240*time.Hour), noon.Add(-time.Hour)
	return []storage.Backfill{
		{ID: id(activeBackfill), Job: "rollup-sales", From: from, To: noon.Add(-24 * time.Hour),
			Parallel: 1, State: storage.BackfillActive, CreatedAt: noon.Add(-time.Minute),
			CreatedBy: "ann", Reason: "new prices", HandledUntil: noon.Add(-100 * time.Hour),
			Times: 216, LeftOut: 120, Runs: 20, Succeeded: 18, Unsuccessful: 1},
		{ID: id(endedBackfill), Job: "sync-vendors", From: from, To: noon.Add(-48 * time.Hour),
			Parallel: 1, State: storage.BackfillCancelled, Detail: "cancelled by bob",
			CreatedAt: noon.Add(-2 * time.Hour), CreatedBy: "bob", EndedAt: &ended,
			HandledUntil: noon.Add(-200 * time.Hour), Times: 192, Runs: 2, Succeeded: 2},
	}
}

func (h *history) Backfills(_ context.Context,
	f storage.BackfillFilter) ([]storage.Backfill, error) {
	found := slices.DeleteFunc(backfills(), func(b storage.Backfill) bool {
		return f.Job != "" && b.Job != f.Job || f.State != "" && b.State != f.State
	})
	return found, h.err
}

func (h *history) Backfill(_ context.Context, id uuid.UUID) (storage.Backfill, error) {
	for _, b := range backfills() {
		if b.ID == id {
			return b, h.err
		}
	}
	return storage.Backfill{}, cmp.Or(h.err, fmt.Errorf("backfill %s: %w", id,
		storage.ErrNotFound))
}

func (h *history) BackfillTaken(_ context.Context, job string, from,
	to time.Time) ([]storage.Outcome, error) {
	var taken []storage.Outcome
	for _, r := range h.runs {
		if r.Job == job && !r.ScheduledAt.Before(from) && !r.ScheduledAt.After(to) &&
			storage.TakesBackfillTime(r) {
			taken = append(taken, storage.Outcome{Run: r.ID, ScheduledAt: r.ScheduledAt,
				State: r.State})
		}
	}
	return taken, h.err
}

func (c *control) AddBackfill(_ context.Context, a storage.Action,
	r storage.BackfillRequest) (storage.Backfill, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.knows(r.Job) {
		return storage.Backfill{}, storage.ErrNotFound
	}
	if _, err := c.record(a, "backfill", "job "+r.Job); err != nil {
		return storage.Backfill{}, err
	}
	return r.New(a, noon), nil
}

func (c *control) CancelBackfill(ctx context.Context, a storage.Action,
	id uuid.UUID) (storage.Backfill, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, err := c.history.Backfill(ctx, id)
	if err == nil && b.State != storage.BackfillActive {
		err = b.HasEnded()
	}
	if err != nil {
		return storage.Backfill{}, err
	}
	if _, err := c.record(a, "cancel_backfill", "backfill "+id.String()); err != nil {
		return storage.Backfill{}, err
	}
	b.State = storage.BackfillCancelled
	return b, nil
}
