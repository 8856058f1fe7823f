package engine_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// soon is the longest time from a trigger to the start of its run, if a worker is free.
const soon = 100 * time.Millisecond

// TestTriggeredRunsStartAtOnce triggers between two polls, and more runs than there are workers.
// If adoptions only came with the polls, each poll would start four runs.
func TestTriggeredRunsStartAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const runs, workers, took = 200, 4, 10 * time.Millisecond
		c := newCluster(t)
		j := once(t, "manual", 24*time.Hour)
		j.Overlap = jobs.OverlapAllow
		store := &adopting{Store: c.store}
		options := c.options("a", takes(took), j)
		options.Store, options.Workers = store, workers
		stop := c.start(options)
		time.Sleep(5*time.Second + 300*time.Millisecond)
		for i := range runs {
			request := storage.TriggerRequest{Job: "manual", Key: fmt.Sprint(i)}
			if _, err := c.store.Trigger(t.Context(), byHand, request); err != nil {
				t.Fatal(err)
			}
		}
		before := store.polls()
		time.Sleep(soon)
		begun := 0
		for _, r := range c.runs("manual") {
			if r.StartedAt != nil {
				begun++
			}
		}
		if begun < workers {
			t.Errorf("%d runs started within %s, want %d", begun, soon, workers)
		}
		// Each round starts as many runs as there are workers.
		time.Sleep(runs / workers * 2 * wakeInterval)
		stop()
		for _, r := range c.runs("manual") {
			if r.State != jobs.Succeeded {
				t.Errorf("run %s is %s", r.Key, r.State)
			}
		}
		if polls := store.polls() - before; polls > runs/workers*2+10 {
			t.Errorf("%d adoptions for %d runs", polls, runs)
		}
	})
}

// wakeInterval is the shortest time between two adoptions.
const wakeInterval = 20 * time.Millisecond

// TestActionsDoNotMultiplyPolls announces many actions in a second.
func TestActionsDoNotMultiplyPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		store := &adopting{Store: c.store}
		options := c.options("a", takes(time.Hour), once(t, "manual", 24*time.Hour))
		options.Store = store
		stop := c.start(options)
		time.Sleep(5 * time.Second)
		before := store.polls()
		for range 1000 {
			c.pause("ops")()
			time.Sleep(time.Millisecond)
		}
		if polls := store.polls() - before; polls > 52 {
			t.Errorf("%d adoptions in a second, want at most one in %s", polls, wakeInterval)
		}
		stop()
	})
}

// TestDependentsStartAtOnce measures from the end of the dependency to the start of the dependent.
func TestDependentsStartAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		first := once(t, "extract", 2*time.Second)
		stop := c.start(c.options("a", takes(1300*time.Millisecond), first,
			dependent(t, "load", "extract"), dependent(t, "report", "load")))
		time.Sleep(time.Minute)
		stop()
		end := c.runs("extract")[0].FinishedAt
		for _, name := range []string{"load", "report"} {
			runs := c.runs(name)
			if len(runs) != 1 || runs[0].State != jobs.Succeeded {
				t.Fatalf("%s: %+v", name, runs)
			}
			if delay := runs[0].StartedAt.Sub(*end); delay > soon {
				t.Errorf("%s started %s after its dependency", name, delay)
			}
			end = runs[0].FinishedAt
		}
	})
}
