package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// The backfills of every history with jobs.
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

func backfillAddress(n int) string { return param.BackfillPath(id(n)) }

// backfilled is a cluster with backfills in all states, and runs of the active one.
func backfilled() Options {
	h := contention().Store.(*history)
	h.backfill = slices.Concat(backfills(), []storage.Backfill{
		{ID: id(9103), Job: "merge-events", From: noon.Add(-72 * time.Hour),
			To: noon.Add(-70 * time.Hour), Parallel: 4, State: storage.BackfillCompleted,
			CreatedAt: noon.Add(-27 * time.Hour), CreatedBy: "night-shift@example.com",
			Reason:  "the vendor delivered the events of Thursday again, with other prices",
			EndedAt: pointer(noon.Add(-26 * time.Hour)), HandledUntil: noon.Add(-70 * time.Hour),
			Times: 721, LeftOut: 1, Runs: 720, Succeeded: 717, Unsuccessful: 3},
		{ID: id(9104), Job: "prune-logs", From: noon.Add(-96 * time.Hour),
			To: noon.Add(-24 * time.Hour), Parallel: 1, State: storage.BackfillCompleted,
			CreatedAt: noon.Add(-28 * time.Hour), CreatedBy: "ann",
			EndedAt: pointer(noon.Add(-28 * time.Hour)), HandledUntil: noon.Add(-24 * time.Hour),
			Times: 3, Runs: 3, Succeeded: 3},
		{ID: id(9105), Job: "sync-stock", From: noon.Add(-400 * time.Hour),
			To: noon.Add(-399 * time.Hour), Parallel: 1, State: storage.BackfillStopped,
			Detail: storage.BackfillJobRemoved, CreatedAt: noon.Add(-50 * time.Hour),
			CreatedBy: "bob", EndedAt: pointer(noon.Add(-49 * time.Hour)),
			HandledUntil: noon.Add(-401 * time.Hour), Times: 400},
	})
	ofBackfill := func(at time.Duration, r storage.Record) storage.Record {
		r.ScheduledAt, r.Backfill = noon.Add(-at), id(activeBackfill)
		r.Key = storage.BackfillKey(r.Backfill, r.ScheduledAt)
		return r
	}
	next := waiting(702, "rollup-sales", 2*time.Second, "", running(701, "rollup-sales", "", 0))
	next.BlockedBy, next.Reason, next.Replica = nil, reasons.Backfill, ""
	failed := done(703, "rollup-sales", "replica-3", 30*time.Second, 3*time.Second, jobs.Failed)
	failed.Error = "vendor api: 503 Service Unavailable"
	h.runs = slices.Concat([]storage.Record{
		ofBackfill(99*time.Hour, next),
		ofBackfill(100*time.Hour, running(701, "rollup-sales", "replica-2", 9*time.Second)),
		ofBackfill(101*time.Hour, failed),
		ofBackfill(102*time.Hour, done(700, "rollup-sales", "replica-1", 40*time.Second,
			2*time.Second, jobs.Succeeded)),
	}, h.runs)
	return options(h)
}

// manyBackfills is a cluster with more backfills of each kind than a page has.
func manyBackfills() Options {
	h := contention().Store.(*history)
	h.backfill = nil
	for i := range 2 * (pageBackfills + 2) {
		b := backfills()[i%2]
		b.ID, b.CreatedAt = id(9200+i), noon.Add(-time.Duration(i)*time.Minute)
		if b.Job = fmt.Sprintf("load-%02d", i); b.EndedAt != nil {
			b.EndedAt = pointer(b.CreatedAt.Add(30 * time.Second))
		}
		h.backfill = append(h.backfill, b)
		h.jobs = append(h.jobs, job(b.Job, "0 2 * * *"))
	}
	return options(h)
}

func (h *history) Backfills(_ context.Context,
	f storage.BackfillFilter) ([]storage.Backfill, error) {
	index := func(c *storage.RunCursor) int {
		return slices.IndexFunc(h.backfill, func(b storage.Backfill) bool { return b.ID == c.ID })
	}
	var found []storage.Backfill
	for i, b := range h.backfill {
		if (f.Job == "" || b.Job == f.Job) && (f.State == "" || b.State == f.State) &&
			(!f.Ended || b.State != storage.BackfillActive) &&
			(f.Before == nil || i > index(f.Before)) && (f.After == nil || i < index(f.After)) {
			found = append(found, b)
		}
	}
	limit := min(len(found), f.Limit)
	if f.After != nil && f.Before == nil {
		return found[len(found)-limit:], h.err
	}
	return found[:limit], h.err
}

func (h *history) Backfill(_ context.Context, id uuid.UUID) (storage.Backfill, error) {
	for _, b := range h.backfill {
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
