package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/retry"
)

// TestWaitEndIsWhenTheWaitEnds lets the firings of a job wait for a lock that another job holds for
// long. The time that WaitEnd returned while a firing waited must be the time at which it gave up.
func TestWaitEndIsWhenTheWaitEnds(t *testing.T) {
	t.Parallel()
	long := retry.Policy{Elapsed: time.Hour, Delay: time.Second}
	for name, c := range map[string]struct {
		change func(*jobs.Job)
		want   storage.WaitEnd // without the time
	}{
		"tries":   {func(*jobs.Job) {}, storage.WaitEnd{Estimated: true}},
		"elapsed": {func(j *jobs.Job) { j.Wait.Attempts, j.Wait.Elapsed = 0, 20*time.Second }, storage.WaitEnd{Estimated: true}},
		"next":    {func(j *jobs.Job) { j.Wait = long }, storage.WaitEnd{Next: true}},
		"deadline": {func(j *jobs.Job) { j.Wait, j.Deadline = long, 30*time.Second },
			storage.WaitEnd{}},
		"run once": {func(j *jobs.Job) { j.MisfireBy.LockHeld = jobs.MisfireRunOnce },
			storage.WaitEnd{Next: true, Estimated: true}},
		"run all": {func(j *jobs.Job) {
			j.Overlap = jobs.OverlapQueue
			j.MisfireBy = jobs.MisfireRules{LockHeld: jobs.MisfireRunAll, Limit: 2}
		}, storage.WaitEnd{Estimated: true}},
		"too old": {func(j *jobs.Job) {
			j.MisfireBy = jobs.MisfireRules{LockHeld: jobs.MisfireRunOnce, MaxAge: 40 * time.Second}
		}, storage.WaitEnd{Estimated: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := newCluster(t)
				hog, j := once(t, "hog", 50*time.Second, "orders"),
					job(t, "job", time.Minute, "orders")
				c.change(&j)
				handlers := []jobs.Registration{jobs.Handle("work",
					func(_ context.Context, run *jobs.Run, _ struct{}) error {
						if run.Job == "hog" {
							time.Sleep(3*time.Minute + 30*time.Second)
						}
						return nil
					})}
				replica, stop := cluster.begin(cluster.options("a", handlers, hog, j))
				ends := make(map[uuid.UUID]storage.WaitEnd)
				for range 5 * 60 {
					time.Sleep(time.Second)
					for _, r := range cluster.runs("job") {
						end, known := replica.WaitEnd(r)
						if known {
							ends[r.ID] = end
						}
						alone, same := engine.WaitEnd(j, r)
						if same != known || alone != end {
							t.Errorf("without the replica: %+v, %t, want %+v", alone, same, end)
						}
					}
				}
				stop()
				gaveUp := 0
				for _, r := range cluster.runs("job") {
					end, known := ends[r.ID]
					if r.State != jobs.Skipped || !known {
						continue
					}
					gaveUp++
					const most = 2 * time.Second // between two tries
					if off := r.FinishedAt.Sub(end.At); off.Abs() > most {
						t.Errorf("the run of %s gave up at %s, want %s", r.ScheduledAt,
							r.FinishedAt, end.At)
					}
					if end.At = (time.Time{}); end != c.want {
						t.Errorf("the end of the wait is %+v, want %+v", end, c.want)
					}
				}
				if gaveUp == 0 {
					t.Errorf("no run gave up: %v", cluster.outcomes("job"))
				}
			})
		})
	}
}

// TestWaitEndOfManualAndQueuedRuns checks runs whose wait has no limit, or another one than those
// of scheduled firings.
func TestWaitEndOfManualAndQueuedRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		hog, j := once(t, "hog", time.Second, "orders"), job(t, "job", time.Minute, "orders")
		replica, stop := c.begin(c.options("a", takes(time.Second), hog, j))
		defer stop()
		time.Sleep(2 * time.Second)
		now := time.Now()
		behind := func(job string) *jobs.Blocker {
			b := &jobs.Blocker{Resource: "public/orders"}
			b.Holder.Job = job
			return b
		}
		by := now.Add(time.Minute)
		for name, c := range map[string]struct {
			run  storage.Record
			want time.Time
		}{
			"triggered":            {storage.Record{Key: "k", BlockedBy: behind("hog")}, time.Time{}},
			"triggered with limit": {storage.Record{Key: "k", StartBy: &by, BlockedBy: behind("hog")}, by},
			"behind its own run":   {storage.Record{Reason: "overlap", BlockedBy: behind("job")}, time.Time{}},
		} {
			c.run.Job, c.run.State, c.run.ScheduledAt, c.run.CreatedAt, c.run.WaitSince = "job",
				jobs.Waiting, now, now, now
			end, known := replica.WaitEnd(c.run)
			if !known || !end.At.Equal(c.want) {
				t.Errorf("%s: %+v, %t, want %s", name, end, known, c.want)
			}
		}
		for name, run := range map[string]storage.Record{
			"another replica's job": {Job: "other", State: jobs.Waiting, BlockedBy: behind("hog")},
			"a running run":         {Job: "job", State: jobs.Running, BlockedBy: behind("hog")},
			"no blocker":            {Job: "job", State: jobs.Waiting},
		} {
			if end, known := replica.WaitEnd(run); known {
				t.Errorf("%s: got %+v, want an unknown end", name, end)
			}
		}
	})
}
