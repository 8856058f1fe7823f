package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/retry"
)

// takesBy is a handler that takes the given time for each job, and a second for other jobs.
func takesBy(lengths map[string]time.Duration) []jobs.Registration {
	return []jobs.Registration{jobs.Handle("work",
		func(ctx context.Context, run *jobs.Run, _ struct{}) error {
			length, known := lengths[run.Job]
			if !known {
				length = time.Second
			}
			return sleep.For(ctx, length)
		})}
}

// A backup of a schema waits for one of its tables. Jobs that write other tables run meanwhile. A
// skipped run names the backup and its blocker.
func TestWaiterForASchemaDoesNotBlockOtherTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		extract := once(t, "extract", 10*time.Second, "orders")
		backup := once(t, "backup", 20*time.Second, "public.*")
		backup.Wait = retry.Policy{Elapsed: 2 * time.Hour, Delay: 10 * time.Second,
			Backoff: retry.Constant}
		table := []jobs.Job{extract, backup}
		for i := range 6 {
			table = append(table, job(t, fmt.Sprint("rollup-", i), time.Minute,
				fmt.Sprint("rollup_", i)))
		}
		hasty := once(t, "hasty", 22*time.Second, "totals")
		hasty.Wait = retry.Policy{Attempts: 1}
		table = append(table, hasty)
		stop := c.start(c.options("a", takesBy(map[string]time.Duration{"extract": time.Hour}),
			table...))
		time.Sleep(70*time.Minute + 30*time.Second) // nothing is scheduled when it stops
		stop()

		for i := range 6 {
			for _, r := range c.runs(fmt.Sprint("rollup-", i)) {
				if r.State != jobs.Succeeded {
					t.Errorf("%s at scheduled time %s: %s (%s)", r.Job, r.ScheduledAt, r.State,
						r.Detail)
				}
			}
		}
		ended, done := c.runs("extract")[0], c.runs("backup")[0]
		if done.State != jobs.Succeeded || done.StartedAt.Sub(*ended.FinishedAt) > time.Minute {
			t.Errorf("the backup %+v, an extract ended at %s", done, ended.FinishedAt)
		}
		skipped := c.runs("hasty")[0]
		want := fmt.Sprintf("queued behind job backup (run %s) on a (waiting), which waits for "+
			"job extract (run %s) on a (holds public/orders)",
			done.ID, ended.ID)
		if skipped.State != jobs.Skipped || skipped.Reason != reasons.OlderWaiter ||
			!strings.Contains(skipped.Detail, want) {
			t.Errorf("skipped %+v, want %q", skipped, want)
		}
	})
}

// No trigger is dropped, whatever the job's overlap policy, and triggered runs start in order.
func TestTriggersRunInOrder(t *testing.T) {
	for _, overlap := range []jobs.Overlap{jobs.OverlapSkip, jobs.OverlapQueue} {
		t.Run(string(overlap), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				j := job(t, "job", 24*time.Hour)
				j.Overlap = overlap
				var stops []func()
				for _, name := range []string{"a", "b"} {
					stops = append(stops, c.start(c.options(name, takes(10*time.Second), j)))
				}
				time.Sleep(5 * time.Second)
				const many = 8
				for i := range many {
					if _, err := c.store.Trigger(t.Context(), byHand,
						storage.TriggerRequest{Job: "job", Key: fmt.Sprint(i)}); err != nil {
						t.Fatal(err)
					}
					time.Sleep(300 * time.Millisecond)
				}
				time.Sleep(3 * time.Minute)
				for _, stop := range stops {
					stop()
				}
				began := c.starts([]jobs.Job{j})
				if len(began) != many {
					t.Fatalf("%d of %d triggers ran: %v", len(began), many, c.outcomes("job"))
				}
				for i, r := range began {
					if r.Key != fmt.Sprint(i) || r.State != jobs.Succeeded {
						t.Errorf("run %d is %s of trigger %s", i, r.State, r.Key)
					}
				}
			})
		})
	}
}

// A triggered run waits for a lock without the limit of a scheduled firing.
func TestTriggerWaitsForALockWithoutLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		long, manual := once(t, "long", 2*time.Second, "orders"),
			job(t, "manual", time.Minute, "orders")
		manual.Schedule = once(t, "manual", 24*time.Hour).Schedule
		stop := c.start(c.options("a", takesBy(map[string]time.Duration{"long": 30 * time.Minute}),
			long, manual))
		time.Sleep(5 * time.Second)
		if _, err := c.store.Trigger(t.Context(), byHand,
			storage.TriggerRequest{Job: "manual", Key: "k"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Minute)
		stop()
		if got := c.outcomes("manual"); len(got) != 1 || got[0] != "succeeded" {
			t.Errorf("the trigger: %v", got)
		}
	})
}
