package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// twoDefinitions returns two definitions of a job that fires every second. No scheduled time may be
// lost.
func twoDefinitions(t *testing.T) (before, after jobs.Job) {
	before = job(t, "job", time.Second)
	before.Misfire, before.Overlap = jobs.MisfireSkip, jobs.OverlapAllow
	after = before
	after.Timeout = time.Minute
	return before, after
}

// byReplica returns which replicas ran the job's firings, the earliest scheduled time first, in the
// form "a×3 b×2". It fails the test if a scheduled time has no successful run.
func (c *cluster) byReplica(job string) string {
	c.t.Helper()
	var text string
	var last string
	n := 0
	records := c.runs(job)
	for i, r := range records {
		if r.State != jobs.Succeeded {
			c.t.Errorf("%s at scheduled time %s: %s %s", job, r.ScheduledAt, r.State, r.Reason)
		}
		if i > 0 && r.ScheduledAt.Sub(records[i-1].ScheduledAt) != time.Second {
			c.t.Errorf("%s: scheduled time %s is followed by %s", job, records[i-1].ScheduledAt,
				r.ScheduledAt)
		}
		if r.Replica != last && n > 0 {
			text, n = fmt.Sprintf("%s%s×%d ", text, last, n), 0
		}
		last = r.Replica
		n++
	}
	return fmt.Sprintf("%s%s×%d", text, last, n)
}

func TestRollbackOfACanaryReturnsItsJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		before, after := twoDefinitions(t)
		stopOld := c.start(c.options("old", takes(0), before))
		time.Sleep(10*time.Second + time.Millisecond)
		stopNew := c.start(c.options("new", takes(0), after))
		time.Sleep(20 * time.Second)
		stopNew()
		time.Sleep(20 * time.Second)
		stopOld()
		if got := c.byReplica("job"); got != "old×10 new×20 old×20" {
			t.Errorf("fired by %s", got)
		}
	})
}

// The canary crashes. Its definition remains active until its session has expired and is swept.
// Scheduled times of that interval are late but not lost.
func TestDeathOfACanaryReturnsItsJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		before, after := twoDefinitions(t)
		stopOld := c.start(c.options("old", takes(0), before))
		time.Sleep(10*time.Second + time.Millisecond)
		dying := &faultyStore{Store: c.store}
		o := c.options("new", takes(0), after)
		o.Store = dying
		stopNew := c.start(o)
		time.Sleep(20 * time.Second)
		dying.dead.Store(true)
		time.Sleep(40 * time.Second)
		if got := c.byReplica("job"); got != "old×10 new×20 old×40" {
			t.Errorf("fired by %s", got)
		}
		stopOld()
		stopNew()
	})
}

func TestRestartedOldReplicaLeavesItsJobsToTheNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		before, after := twoDefinitions(t)
		stopOld := c.start(c.options("old", takes(0), before))
		time.Sleep(10*time.Second + time.Millisecond)
		stopNew := c.start(c.options("new", takes(0), after))
		for range 3 {
			time.Sleep(10 * time.Second)
			stopOld()
			stopOld = c.start(c.options("old", takes(0), before))
		}
		time.Sleep(2 * time.Second)
		stopNew()
		time.Sleep(10 * time.Second)
		stopOld()
		if got := c.byReplica("job"); got != "old×10 new×32 old×10" {
			t.Errorf("fired by %s", got)
		}
	})
}

// A replica that opens a new session after it lost one does not reactivate its older definition.
func TestOldReplicaWithANewSessionLeavesItsJobsToTheNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		before, after := twoDefinitions(t)
		old := &faultyStore{Store: c.store}
		o := c.options("old", takes(0), before)
		o.Store = old
		stopOld := c.start(o)
		time.Sleep(10*time.Second + time.Millisecond)
		stopNew := c.start(c.options("new", takes(0), after))
		old.down.Store(true)
		time.Sleep(20 * time.Second)
		old.down.Store(false)
		time.Sleep(20 * time.Second)
		stopOld()
		stopNew()
		if got := c.byReplica("job"); got != "old×10 new×40" {
			t.Errorf("fired by %s", got)
		}
	})
}

// During a rolling deploy old and new replicas run at the same time. Each scheduled time is fired
// once.
func TestRollingDeployLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		before, after := twoDefinitions(t)
		var stops []func()
		for _, name := range []string{"old-1", "old-2", "old-3"} {
			stops = append(stops, c.start(c.options(name, takes(0), before)))
		}
		time.Sleep(10*time.Second + 500*time.Millisecond)
		for i, name := range []string{"new-1", "new-2", "new-3"} {
			stops = append(stops, c.start(c.options(name, takes(0), after)))
			time.Sleep(1700 * time.Millisecond)
			stops[i]()
			time.Sleep(1700 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		for _, stop := range stops[3:] {
			stop()
		}
		c.byReplica("job") // it fails the test for lost scheduled times
		if n := len(c.runs("job")); n != 25 {
			t.Errorf("%d firings in 25 s", n)
		}
	})
}

// Scheduled times of a schedule count only while it is active.
func TestScheduledTimesOfAnInactiveScheduleAreNotFired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		start := time.Now()
		before, after := job(t, "job", 8*time.Second), job(t, "job", time.Hour)
		stopOld := c.start(c.options("old", takes(0), before))
		time.Sleep(9 * time.Second)
		stopNew := c.start(c.options("new", takes(0), after))
		time.Sleep(22 * time.Second)
		stopNew()
		time.Sleep(42 * time.Second)
		stopOld()
		var scheduledTimes []int
		for _, r := range c.runs("job") {
			scheduledTimes = append(scheduledTimes, int(r.ScheduledAt.Sub(start).Seconds()))
		}
		if !slices.Equal(scheduledTimes, []int{8, 32, 40, 48, 56, 64, 72}) {
			t.Errorf("fired at %v s, want nothing at 16 and 24", scheduledTimes)
		}
	})
}

func TestNewDescriptionKeepsTheDefinition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		before, _ := twoDefinitions(t)
		before.Params, before.Resources = []byte(`{"b": [1.50, {"y": 2, "x": 1}], "a": 1}`),
			tables(t, "b", "a")
		before.Overlap = jobs.OverlapSkip
		after := before
		after.Description, after.Params, after.Resources = "rolls up",
			[]byte(`{"a":1,"b":[1.50,{"x":1,"y":2}]}`), tables(t, "a", "b")
		anything := []jobs.Registration{jobs.Handle("work",
			func(context.Context, *jobs.Run, map[string]any) error { return nil })}
		stopOld := c.start(c.options("old", anything, before))
		time.Sleep(time.Second)
		stopNew := c.start(c.options("new", anything, after))
		time.Sleep(time.Second)
		views, err := c.store.Jobs(t.Context())
		if err != nil || len(views) != 1 || views[0].Version != 1 ||
			views[0].Description != "rolls up" {
			t.Errorf("jobs %+v, %v: want version 1 with the new description", views, err)
		}
		stopNew()
		stopOld()
	})
}

// A replica shows the next scheduled time only of jobs that it fires itself.
func TestUpcomingExcludesJobsThatOthersFire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		before, after := twoDefinitions(t)
		scheduler, stop := c.begin(c.options("old", takes(0), before, job(t, "same", time.Hour)))
		time.Sleep(time.Second)
		if n := len(scheduler.Upcoming(time.Now(), 10)); n != 2 {
			t.Errorf("%d scheduled times before, want 2", n)
		}
		stopNew := c.start(c.options("new", takes(0), after))
		time.Sleep(10 * time.Second)
		if scheduledTimes := scheduler.Upcoming(time.Now(), 10); len(scheduledTimes) != 1 ||
			scheduledTimes[0].Job != "same" {
			t.Errorf("scheduled times during: %+v, want that of same alone", scheduledTimes)
		}
		stopNew()
		time.Sleep(10 * time.Second)
		if n := len(scheduler.Upcoming(time.Now(), 10)); n != 2 {
			t.Errorf("%d scheduled times after, want 2", n)
		}
		stop()
	})
}

// A triggered run uses the active definition.
func TestOldReplicaAdoptsNothingOfAJobThatOthersFire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		before := once(t, "job", 100*time.Hour)
		before.Overlap = jobs.OverlapAllow
		after := before
		after.Timeout = time.Minute
		stopOld := c.start(c.options("old", takes(0), before))
		time.Sleep(time.Second)
		stopNew := c.start(c.options("new", takes(0), after))
		time.Sleep(10 * time.Second)
		for range 20 {
			if _, err := c.store.Trigger(t.Context(), byHand,
				storage.TriggerRequest{Job: "job", Key: ""}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(30 * time.Second)
		for _, r := range c.runs("job") {
			if r.Replica != "new" || r.State != jobs.Succeeded {
				t.Errorf("run on %s: %s", r.Replica, r.State)
			}
		}
		stopOld()
		stopNew()
	})
}

// registering is a store whose registrations fail for some time, always fail or are slow. It counts
// the starts that are refused as stale.
type registering struct {
	storage.Store
	until time.Time
	err   error
	slow  time.Duration
	stale atomic.Int32
}

func (r *registering) Register(ctx context.Context, session uuid.UUID,
	definitions []storage.Definition) (map[string]int64, error) {
	if time.Now().Before(r.until) {
		return nil, r.err
	}
	versions, err := r.Store.Register(ctx, session, definitions)
	time.Sleep(r.slow)
	return versions, err
}

func (r *registering) Start(ctx context.Context, session uuid.UUID,
	requests []storage.StartRequest) ([]storage.StartResult, error) {
	results, err := r.Store.Start(ctx, session, requests)
	for _, result := range results {
		if result.Outcome == storage.StartStale {
			r.stale.Add(1)
		}
	}
	return results, err
}

// Once the definitions of a new replica are active, the other replicas leave its jobs to it, even
// if it is slow to start.
func TestScheduledTimesDuringARegistrationAreFired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		before, after := twoDefinitions(t)
		stopOld := c.start(c.options("old", takes(0), before))
		time.Sleep(10*time.Second + time.Millisecond)
		o := c.options("new", takes(0), after)
		o.Store = &registering{Store: c.store, slow: 4 * time.Second}
		stopNew := c.start(o)
		time.Sleep(20 * time.Second)
		stopNew()
		stopOld()
		if got := c.byReplica("job"); got != "old×10 new×20" {
			t.Errorf("fired by %s", got)
		}
	})
}

func TestStaleStartIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		before, after := twoDefinitions(t)
		old := &registering{Store: c.store}
		o := c.options("old", takes(0), before)
		o.Store = old
		stopOld := c.start(o)
		time.Sleep(10*time.Second + time.Millisecond) // the replica has just sent a heartbeat
		stopNew := c.start(c.options("new", takes(0), after))
		time.Sleep(20 * time.Second)
		stopNew()
		stopOld()
		if n := old.stale.Load(); n != 1 {
			t.Errorf("%d starts refused as stale, want one", n)
		}
	})
}

func TestRegistrationThatTimesOutIsRetriedAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		before, _ := twoDefinitions(t)
		o := c.options("a", takes(0), before)
		o.Store = &registering{
			Store: c.store, until: time.Now().Add(5*time.Second + time.Millisecond),
			err: fmt.Errorf("registration: %w: lock timeout", storage.ErrUnavailable),
		}
		stop := c.start(o)
		time.Sleep(10*time.Second + 2*time.Millisecond)
		stop()
		if n := len(c.runs("job")); n < 4 || n > 5 {
			t.Errorf("%d firings in the 5 s that were left", n)
		}
	})
}

func TestRefusedRegistrationFailsTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		before, _ := twoDefinitions(t)
		refused := errors.New("permission denied")
		o := c.options("a", takes(0), before)
		o.Store = &registering{Store: c.store, until: time.Now().Add(time.Hour), err: refused}
		scheduler, err := engine.New(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := scheduler.Run(t.Context()); !errors.Is(err, refused) {
			t.Errorf("run returned %v, want %v", err, refused)
		}
	})
}

// TestJobThatOnlySomeReplicasKnowFiresOnce runs replicas of two releases at the same time. The new
// release adds one job and removes another.
func TestJobThatOnlySomeReplicasKnowFiresOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		both, brought, gone := job(t, "both", 5*time.Second, "orders"),
			job(t, "brought", 5*time.Second, "sales"), job(t, "gone", 5*time.Second, "items")
		old := []jobs.Job{both, gone}
		recent := []jobs.Job{both, brought}
		start := time.Now()
		stops := []func(){c.start(c.options("a", takes(time.Second), old...)),
			c.start(c.options("b", takes(time.Second), old...))}
		time.Sleep(31 * time.Second)
		stops = append(stops, c.start(c.options("c", takes(time.Second), recent...)))
		time.Sleep(30 * time.Second)
		stops[0]()
		stops = append(stops, c.start(c.options("d", takes(time.Second), recent...)))
		time.Sleep(30 * time.Second)
		stops[1]()
		time.Sleep(30 * time.Second)
		stops[2]()
		stops[3]()
		intervals := int(time.Since(start) / (5 * time.Second))
		for name, least := range map[string]int{"both": intervals - 1,
			"brought": intervals - 31/5 - 1,
			"gone":    (31+30+30)/5 - 1} {
			scheduledTimes := map[time.Time]bool{}
			for _, r := range c.runs(name) {
				if r.State != jobs.Succeeded || r.Recovery != 0 || scheduledTimes[r.ScheduledAt] {
					t.Errorf("%s of %s: %s %s, by %s", name, r.ScheduledAt, r.State, r.Reason,
						r.Replica)
				}
				scheduledTimes[r.ScheduledAt] = true
			}
			if len(scheduledTimes) < least {
				t.Errorf("%s: %d scheduled times were fired, want at least %d", name,
					len(scheduledTimes), least)
			}
		}
	})
}
