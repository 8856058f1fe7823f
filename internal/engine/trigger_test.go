package engine_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// A trigger with a wait of ten minutes gives up after that time and records the blocker. Its key
// may then start another run.
func TestTriggerWaitsUpToItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		long, manual := once(t, "long", 2*time.Second, "orders"),
			job(t, "manual", time.Minute, "orders")
		manual.Schedule = once(t, "manual", 24*time.Hour).Schedule
		stop := c.start(c.options("a", takesBy(map[string]time.Duration{"long": 30 * time.Minute}),
			long, manual))
		time.Sleep(5 * time.Second)
		request := storage.TriggerRequest{Job: "manual", Key: "k", Wait: new(10 * time.Minute)}
		answer, err := c.store.Trigger(t.Context(), byHand, request)
		if err != nil || !answer.Created || answer.WaitsFor == nil ||
			answer.WaitsFor.Holder.Job != "long" {
			t.Fatalf("the trigger: %+v, %v", answer, err)
		}
		time.Sleep(10*time.Minute - time.Second)
		if r := c.runs("manual")[0]; r.State != jobs.Waiting {
			t.Errorf("a second before its limit: %+v", r)
		}
		time.Sleep(3 * time.Second)
		r := c.runs("manual")[0]
		if r.State != jobs.Skipped || r.Reason != reasons.LockHeld || r.BlockedBy == nil ||
			r.BlockedBy.Holder.Job != "long" ||
			!strings.HasPrefix(r.Detail,
				"not started within 10m0s of its trigger: public/orders was held by job long") {
			t.Errorf("after its limit: %+v", r)
		}
		request.Wait = nil
		if answer, err = c.store.Trigger(t.Context(), byHand, request); err != nil ||
			!answer.Created || answer.ID == r.ID {
			t.Fatalf("the key again: %+v, %v", answer, err)
		}
		time.Sleep(40 * time.Minute)
		stop()
		if ended, err := c.store.Run(t.Context(), answer.ID); err != nil ||
			ended.State != jobs.Succeeded {
			t.Errorf("the second run of the key: %+v, %v", ended, err)
		}
	})
}

// A trigger without a wait was accepted because its locks were free. If no worker becomes free
// within a few seconds, its run does not start.
func TestTriggerWithoutWaitingDoesNotWaitForAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		long, manual := once(t, "long", 2*time.Second), once(t, "manual", 24*time.Hour, "orders")
		options := c.options("a", takesBy(map[string]time.Duration{"long": 30 * time.Minute}), long,
			manual)
		options.Workers = 1
		stop := c.start(options)
		time.Sleep(5 * time.Second)
		request := storage.TriggerRequest{Job: "manual", Key: "k", Wait: new(time.Duration)}
		if _, err := c.store.Trigger(t.Context(), byHand, request); err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Minute)
		stop()
		r := c.runs("manual")
		if len(r) != 1 || r[0].State != jobs.Skipped || r[0].Reason != reasons.Deadline ||
			!strings.HasPrefix(r[0].Detail, "not started within 10s of its trigger: ") {
			t.Errorf("the run: %+v", r)
		}
	})
}

// A run that was triggered for a later time starts at that time, and the job's schedule goes on
// meanwhile. A cancel before that time ends it.
func TestTriggerForALaterTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		stop := c.start(c.options("a", takes(time.Second),
			job(t, "minutely", time.Minute, "orders")))
		time.Sleep(5 * time.Second)
		at := time.Now().Add(10*time.Minute + 30*time.Second)
		answer, err := c.store.Trigger(t.Context(), byHand,
			storage.TriggerRequest{Job: "minutely", Key: "later", At: at})
		if err != nil || answer.WaitsFor != nil {
			t.Fatalf("the trigger: %+v, %v", answer, err)
		}
		other, err := c.store.Trigger(t.Context(), byHand,
			storage.TriggerRequest{Job: "minutely", Key: "never", Delay: 5 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Minute)
		if _, err := c.store.Cancel(t.Context(), byHand, other.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Minute)
		stop()
		later, err := c.store.Run(t.Context(), answer.ID)
		if err != nil || later.State != jobs.Succeeded {
			t.Fatalf("the run for a later time: %+v, %v", later, err)
		}
		if delay := later.StartedAt.Sub(at); delay < 0 || delay > 2*time.Second {
			t.Errorf("it started %s after its time", delay)
		}
		if r, err := c.store.Run(t.Context(), other.ID); err != nil || r.State != jobs.Cancelled ||
			r.StartedAt != nil {
			t.Errorf("the cancelled run: %+v, %v", r, err)
		}
		if n := len(c.runs("minutely")); n < 22 {
			t.Errorf("got %d runs, want one each minute and two triggered ones", n)
		}
	})
}

// Two actors trigger a job with the same key for the same time. Each run, and its recovery, has the
// actor who chose its key.
func TestRunsHaveTheActorsOfTheirKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		manual := once(t, "manual", 24*time.Hour)
		manual.Recover = true
		seen := map[string]int{}
		stop := c.start(c.options("a", []jobs.Registration{jobs.Handle("work",
			func(_ context.Context, run *jobs.Run, _ struct{}) error {
				seen[fmt.Sprint(run.Key, " of ", run.KeyActor, " ", run.Recovery)]++
				if run.Recovery == 0 {
					return storage.ErrSuperseded // ends the run as lost
				}
				return nil
			})}, manual))
		time.Sleep(5 * time.Second)
		at := time.Now().Add(time.Minute)
		for _, actor := range []string{"ann", "bob"} {
			if answer, err := c.store.Trigger(t.Context(), storage.Action{Actor: actor, Via: "go"},
				storage.TriggerRequest{Job: "manual", Key: "k", At: at}); err != nil ||
				!answer.Created {
				t.Fatalf("the trigger of %s: %+v, %v", actor, answer, err)
			}
		}
		time.Sleep(10 * time.Minute)
		stop()
		want := map[string]int{"k of ann 0": 1, "k of ann 1": 1, "k of bob 0": 1, "k of bob 1": 1}
		if !maps.Equal(seen, want) {
			t.Errorf("got the runs %v, want %v", seen, want)
		}
	})
}
