package engine_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/retry"
)

// pause pauses all jobs.
func (c *cluster) pause(by string) (resume func()) {
	c.t.Helper()
	action, everything := storage.Action{Actor: by, Via: "go"},
		storage.Target{Kind: storage.TargetAll}
	if _, err := c.store.Pause(context.Background(), action, everything); err != nil {
		c.t.Fatal(err)
	}
	return func() {
		c.t.Helper()
		if _, err := c.store.Resume(context.Background(), action, everything); err != nil {
			c.t.Fatal(err)
		}
	}
}

// outage registers the jobs with a replica that stops at once, and sleeps.
func (c *cluster) outage(d time.Duration, table ...jobs.Job) {
	c.t.Helper()
	stop := c.start(c.options("former", takes(0), table...))
	time.Sleep(time.Second)
	stop()
	time.Sleep(d)
}

// starts returns the start times of the runs of the jobs, in the order of the jobs.
func (c *cluster) starts(table []jobs.Job) []storage.Record {
	c.t.Helper()
	var began []storage.Record
	for _, j := range table {
		for _, r := range c.runs(j.Name) {
			if r.StartedAt != nil {
				began = append(began, r)
			}
		}
	}
	slices.SortStableFunc(began, func(a, b storage.Record) int {
		return cmp.Or(a.StartedAt.Compare(*b.StartedAt), cmp.Compare(a.Token, b.Token))
	})
	return began
}

func TestLateRunsRunBesideDueFirings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		missed := soak.Pick(100, 300)
		var late []jobs.Job
		priority := map[string]int{}
		for i := range missed {
			j := job(t, fmt.Sprintf("late-%03d", i), 24*time.Hour)
			j.Priority = 1 + (i*7)%9
			priority[j.Name] = j.Priority
			late = append(late, j)
		}
		var current []jobs.Job
		for i := range 6 {
			j := job(t, fmt.Sprintf("current-%d", i), 10*time.Second)
			j.Misfire = jobs.MisfireSkip
			current = append(current, j)
		}
		c.outage(25*time.Hour, slices.Concat(late, current)...)
		began := time.Now()
		var handlers past // of late runs
		work := jobs.Handle("work", func(ctx context.Context, run *jobs.Run, _ struct{}) error {
			if strings.HasPrefix(run.Job, "late") {
				handlers.count(1)
				defer handlers.count(-1)
			}
			return sleep.For(ctx, 5*time.Second)
		})
		o := c.options("a", []jobs.Registration{work}, slices.Concat(late, current)...)
		o.Workers, o.CatchUp = 8, 2
		stop := c.start(o)
		// half a second more than a run takes
		time.Sleep(time.Duration(missed) * 3 * time.Second)
		stop()

		for _, r := range c.starts(current) {
			if r.ScheduledAt.After(began.Add(15*time.Second)) &&
				r.StartedAt.Sub(r.ScheduledAt) > time.Second {
				t.Errorf("%s at scheduled time %s started %s late", r.Job, r.ScheduledAt,
					r.StartedAt.Sub(r.ScheduledAt))
			}
		}
		caughtUp := c.starts(late)
		if len(caughtUp) != missed {
			t.Fatalf("%d of %d late runs began", len(caughtUp), missed)
		}
		if handlers.most != 2 {
			t.Errorf("%d late runs were at work at once, want 2", handlers.most)
		}
		for i, r := range caughtUp {
			// Two runs start at a time, in no order among themselves.
			if i >= 4 && priority[r.Job] > priority[caughtUp[i-4].Job] {
				t.Errorf("%s, of priority %d, began after %s, of priority %d", r.Job,
					priority[r.Job], caughtUp[i-4].Job, priority[caughtUp[i-4].Job])
			}
		}
	})
}

// When a late run has ended, the next one follows at once, and not at the next look for waiting
// runs.
func TestLateRunsFollowEachOtherAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		const n = 100
		var table []jobs.Job
		for i := range n {
			table = append(table, job(t, fmt.Sprintf("job-%d", i), 24*time.Hour))
		}
		c.outage(25*time.Hour, table...)
		o := c.options("a", takes(time.Millisecond), table...)
		o.Workers, o.CatchUp = 8, 2
		stop := c.start(o)
		time.Sleep(10 * time.Second)
		if began := len(c.starts(table)); began != n {
			t.Errorf("%d of %d late runs began in 10 s", began, n)
		}
		stop()
	})
}

// Late firings that cannot start any more are recorded together. None waits for the record of
// another one.
func TestMissedDeadlinesAreRecordedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		j := job(t, "job", time.Second)
		j.Deadline = 5 * time.Second
		c.outage(40*time.Second, j)
		began := time.Now()
		stop := c.start(c.options("a", takes(0), j))
		time.Sleep(4 * time.Second)
		stop()
		missed := slices.DeleteFunc(c.runs("job"), func(r storage.Record) bool {
			return r.State != jobs.Missed && r.State != jobs.Skipped ||
				r.ScheduledAt.After(began.Add(-j.Deadline))
		})
		if len(missed) < 20 {
			t.Errorf("%d firings missed their deadlines, want 20 or more", len(missed))
		}
		for _, r := range missed {
			if took := r.FinishedAt.Sub(began); took > time.Second {
				t.Errorf("the firing of %s was recorded after %s", r.ScheduledAt, took)
			}
		}
	})
}

func TestCatchUpIsAQuarterOfTheWorkers(t *testing.T) {
	for workers, want := range map[int]int{1: 1, 3: 1, 8: 2, 32: 8} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t)
			var table []jobs.Job
			for i := range 20 {
				table = append(table, job(t, fmt.Sprintf("job-%d", i), 24*time.Hour))
			}
			c.outage(25*time.Hour, table...)
			o := c.options("a", takes(time.Minute), table...)
			o.Workers = workers
			stop := c.start(o)
			time.Sleep(50 * time.Second)
			if began := len(c.starts(table)); began != want {
				t.Errorf("%d of %d workers are at work on late runs, want %d", began, workers, want)
			}
			stop()
		})
	}
}

func TestPriorityDecidesWhenWorkersAreBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		low, high := once(t, "low", 11*time.Second), once(t, "high", 12*time.Second)
		low.Priority, high.Priority = 4, 6
		o := c.options("a", takes(10*time.Second), once(t, "hog", 10*time.Second), low, high)
		o.Workers = 1
		stop := c.start(o)
		time.Sleep(time.Minute)
		stop()
		began := c.starts([]jobs.Job{low, high})
		if len(began) != 2 || began[0].Job != "high" || began[1].Job != "low" {
			t.Errorf("began %+v", began)
		}
	})
}

// A job of the lowest priority gets a turn although a job of the highest priority always waits.
func TestStarvedJobAges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		var table []jobs.Job
		for i := range 3 {
			j := job(t, fmt.Sprintf("greedy-%d", i), 2*time.Second)
			j.Priority, j.Misfire, j.MisfireBy.NoWorker = 9, jobs.MisfireSkip, jobs.MisfireSkip
			table = append(table, j)
		}
		starved := once(t, "starved", time.Minute)
		starved.Priority = 1
		o := c.options("a", takes(time.Second), append(table, starved)...)
		o.Workers = 1
		stop := c.start(o)
		time.Sleep(7 * time.Minute)
		if began := c.starts([]jobs.Job{starved}); len(began) > 0 {
			t.Errorf("began %s after its scheduled time, beside others that are 8 minutes ahead",
				began[0].StartedAt.Sub(began[0].ScheduledAt))
		}
		time.Sleep(4 * time.Minute)
		if began := c.starts([]jobs.Job{starved}); len(began) != 1 {
			t.Errorf("got no start after 10 minutes: %v", c.outcomes("starved"))
		}
		stop()
	})
}

func TestGroupLimitPerReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		var group []jobs.Job
		for i := range 6 {
			j := once(t, fmt.Sprintf("in-%d", i), 10*time.Second)
			j.Group, j.GroupLimits.PerReplica = "night", 2
			group = append(group, j)
		}
		other := once(t, "other", 10*time.Second)
		stop := c.start(c.options("a", takes(8*time.Second), append(group, other)...))
		time.Sleep(time.Minute)
		stop()
		if began := c.starts([]jobs.Job{other}); len(began) != 1 ||
			began[0].StartedAt.Sub(began[0].ScheduledAt) > time.Second {
			t.Errorf("a job of no group began %+v", began)
		}
		began := c.starts(group)
		if len(began) != 6 {
			t.Fatalf("%d of 6 began", len(began))
		}
		for i, r := range began {
			if want := time.Duration(i/2) * 8 * time.Second; r.StartedAt.Sub(r.ScheduledAt).
				Round(time.Second) != want {
				t.Errorf("the %d. began %s after its scheduled time, want %s", i+1,
					r.StartedAt.Sub(r.ScheduledAt), want)
			}
		}
	})
}

// A firing whose group stays full waits for misfire_threshold. Then a misfire is recorded, and the
// replica forgets the firing. A firing that may wait for longer stays.
func TestFiringOfAFullGroupWaitsForItsThreshold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		hog, patient, often := once(t, "hog", 5*time.Second), once(t, "patient", 6*time.Second),
			job(t, "often", time.Second)
		patient.MisfireThreshold, patient.Priority = time.Hour, 9
		often.MisfireBy.NoWorker = jobs.MisfireSkip
		table := []jobs.Job{hog, patient, often}
		for i := range table {
			table[i].Group, table[i].GroupLimits.PerReplica = "night", 1
		}
		replica, stop := c.begin(c.options("a",
			takesBy(map[string]time.Duration{"hog": 5 * time.Minute}), table...))
		time.Sleep(5*time.Minute - 500*time.Millisecond)
		if parked := replica.Stats().Parked; parked < 31 || parked > 33 {
			t.Errorf("%d firings wait for the group, want patient and those of the last 30s",
				parked)
		}
		missed := 0
		for _, r := range c.runs("often") {
			if r.State == jobs.Missed && r.Reason == reasons.NoWorker {
				missed++
			}
		}
		if missed < 250 {
			t.Errorf("%d misfires recorded, want one for each second before", missed)
		}
		time.Sleep(time.Minute)
		stop()
		if got := c.outcomes("patient"); !slices.Equal(got, []string{"succeeded"}) {
			t.Errorf("patient: %v", got)
		}
	})
}

// While a firing waits for a lock, its slot is free for others. It waits for a slot again before it
// continues.
func TestWaitingFiringUsesNoSlotOfItsGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		holder := once(t, "holder", 9*time.Second, "orders")
		waiter, brief := once(t, "waiter", 10*time.Second, "orders"),
			once(t, "brief", 11*time.Second)
		waiter.Wait = retry.Policy{Attempts: 100, Delay: time.Second}
		for _, j := range []*jobs.Job{&waiter, &brief} {
			j.Group, j.GroupLimits.PerReplica = "night", 1
		}
		stop := c.start(c.options("a", takes(5*time.Second), holder, waiter, brief))
		time.Sleep(time.Minute)
		stop()
		began := c.starts([]jobs.Job{waiter, brief})
		if len(began) != 2 || began[0].Job != "brief" ||
			began[0].StartedAt.Sub(began[0].ScheduledAt) > time.Second ||
			began[1].StartedAt.Before(*began[0].FinishedAt) {
			t.Errorf("began %+v", began)
		}
	})
}

func TestGroupLimitPerCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		var group []jobs.Job
		for i := range 4 {
			j := once(t, fmt.Sprintf("in-%d", i), 10*time.Second)
			j.Group, j.GroupLimits.PerCluster = "night", 2
			group = append(group, j)
		}
		var stops []func()
		for _, name := range []string{"a", "b", "c"} {
			stops = append(stops, c.start(c.options(name, takes(20*time.Second), group...)))
		}
		time.Sleep(25 * time.Second)
		waiting := 0
		for _, j := range group {
			for _, r := range c.runs(j.Name) {
				if r.State == jobs.Waiting {
					waiting++
					if r.Reason != reasons.GroupFull && r.Reason != reasons.OlderWaiter ||
						r.BlockedBy == nil || r.BlockedBy.Resource != "group:night" {
						t.Errorf("%s waits by %s for %+v", r.Job, r.Reason, r.BlockedBy)
					}
				}
			}
		}
		if waiting != 2 {
			t.Errorf("%d wait, want 2", waiting)
		}
		time.Sleep(time.Minute)
		for _, stop := range stops {
			stop()
		}
		began := c.starts(group)
		if len(began) != 4 {
			t.Fatalf("%d of 4 began", len(began))
		}
		for i, r := range began {
			beside := 0 // if two runs end at the same time, either may be first
			for _, o := range began[:i] {
				if o.FinishedAt.After(*r.StartedAt) {
					beside++
				}
			}
			if beside > 1 {
				t.Errorf("%s began beside %d others", r.Job, beside)
			}
		}
	})
}

func TestFiringIsNotStartedAfterItsDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(o *engine.Options, job *jobs.Job)
		table   func(t *testing.T) []jobs.Job
		detail  string
	}{
		"a lock was held": {func(_ *engine.Options, j *jobs.Job) {
			j.Wait = retry.Policy{Attempts: 1000, Delay: 700 * time.Millisecond}
		},
			func(t *testing.T) []jobs.Job {
				return []jobs.Job{once(t, "hog", 8*time.Second, "orders")}
			}, "public/orders was held by job hog"},
		"its workers were busy": {func(o *engine.Options, _ *jobs.Job) { o.Workers = 1 },
			func(t *testing.T) []jobs.Job { return []jobs.Job{once(t, "hog", 8*time.Second)} },
			"none could start it within 30s"},
		"its group was full": {func(_ *engine.Options, j *jobs.Job) { j.Group, j.GroupLimits.PerCluster = "night", 1 },
			func(t *testing.T) []jobs.Job {
				hog := once(t, "hog", 8*time.Second)
				hog.Group, hog.GroupLimits.PerCluster = "night", 1
				return []jobs.Job{hog}
			}, "group:night had no free slot"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newCluster(t)
				j := once(t, "job", 10*time.Second, "orders")
				j.Deadline = 5 * time.Second
				o := cl.options("a", takes(50*time.Second), j)
				c.prepare(&o, &j)
				o.Jobs = append(c.table(t), j)
				o.ShutdownGrace = time.Minute
				stop := cl.start(o)
				time.Sleep(2 * time.Minute)
				stop()
				r := cl.runs("job")
				if len(r) != 1 || r[0].State != jobs.Skipped ||
					r[0].Reason != reasons.Deadline || r[0].StartedAt != nil ||
					!strings.Contains(r[0].Detail,
						"not started by its deadline, 5s after its scheduled time: ") || !strings.Contains(r[0].Detail, c.detail) {
					t.Errorf("runs %+v", r)
				}
				if c.detail != "none could start it within 30s" &&
					r[0].FinishedAt.Sub(r[0].ScheduledAt).
						Round(100*time.Millisecond) != 5*time.Second {
					t.Errorf("skipped %s after its scheduled time",
						r[0].FinishedAt.Sub(r[0].ScheduledAt))
				}
			})
		})
	}
}

// A replica that begins a firing too late does not know the reason.
func TestDeadlineWithoutABlockerNamesNoCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		hog, j := once(t, "hog", 9*time.Second), once(t, "job", 10*time.Second)
		j.Deadline = 5 * time.Second
		for _, j := range []*jobs.Job{&hog, &j} {
			j.Group, j.GroupLimits.PerReplica = "night", 1
		}
		stop := c.start(c.options("a", takes(10*time.Second), hog, j))
		time.Sleep(30 * time.Second)
		stop()
		want := "not started by its deadline, 5s after its scheduled time: " +
			"replica a had not begun it by then"
		if r := c.runs("job"); len(r) != 1 || r[0].Reason != reasons.Deadline ||
			r[0].Detail != want {
			t.Errorf("got %+v, want one run with detail %q", r, want)
		}
	})
}

// The deadline counts from the scheduled time or from the trigger, whichever replica starts the
// run.
func TestDeadlineOfAnAdoptedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		late, manual := job(t, "late", time.Hour), job(t, "manual", 24*time.Hour)
		late.Deadline, manual.Deadline = 20*time.Minute, 20*time.Minute
		c.outage(85*time.Minute, late, manual) // scheduled 25 minutes ago
		if _, err := c.store.Trigger(t.Context(), byHand,
			storage.TriggerRequest{Job: "manual", Key: "early"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(21 * time.Minute)
		if _, err := c.store.Trigger(t.Context(), byHand,
			storage.TriggerRequest{Job: "manual", Key: "late"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		stop := c.start(c.options("a", takes(time.Second), late, manual))
		time.Sleep(time.Minute)
		stop()
		if got := c.outcomes("late"); !slices.Equal(got, []string{"skipped deadline"}) {
			t.Errorf("a late run: %v", got)
		}
		if got := c.outcomes("manual"); !slices.Equal(got,
			[]string{"skipped deadline", "succeeded"}) {
			t.Errorf("triggered runs: %v", got)
		}
		if r := c.runs("manual")[0]; !strings.Contains(r.Detail, "triggered by ann") {
			t.Errorf("got blocker in detail %q", r.Detail)
		}
	})
}

func TestDeadlineIsForTheFirstAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		j := once(t, "job", 10*time.Second)
		j.Deadline, j.Retry = 5*time.Second, retry.Policy{Attempts: 2, Delay: time.Minute}
		handlers := []jobs.Registration{jobs.Handle("work",
			func(_ context.Context, run *jobs.Run, _ struct{}) error {
				if run.Attempt == 1 {
					return errors.New("not yet")
				}
				return nil
			})}
		stop := c.start(c.options("a", handlers, j))
		time.Sleep(2 * time.Minute)
		stop()
		if got := c.outcomes("job"); !slices.Equal(got, []string{"succeeded"}) {
			t.Errorf("got %v", got)
		}
	})
}

func TestOverlapQueueHoldsOneFiring(t *testing.T) {
	for _, locks := range []string{"with advisory locks", "without"} {
		t.Run(locks, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				j := job(t, "job", 10*time.Second, "orders")
				j.Overlap = jobs.OverlapQueue
				var stops []func()
				for _, name := range []string{"a", "b"} {
					o := c.options(name, takes(33*time.Second), j)
					if locks == "without" {
						o.Locker = nil
					}
					stops = append(stops, c.start(o))
				}
				time.Sleep(82 * time.Second)
				// Two firings were skipped while the second waited, and two while the fifth waited.
				// The eighth came after the fifth had started.
				want := []string{"succeeded", "succeeded", "skipped overlap", "skipped overlap",
					"running", "skipped overlap", "skipped overlap", "waiting overlap"}
				if got := c.outcomes("job"); !slices.Equal(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
				if r := c.runs("job")[2]; !strings.Contains(r.Detail,
					"another firing waits for it already") {
					t.Errorf("skipped with %q", r.Detail)
				}
				for _, stop := range stops {
					stop()
				}
			})
		})
	}
}

func TestFiringWithoutTriesLeftFollowsItsWaitPolicy(t *testing.T) {
	for policy, want := range map[jobs.Misfire][]string{
		jobs.MisfireSkip: {"skipped lock_held", "skipped lock_held", "skipped lock_held",
			"succeeded"},
		jobs.MisfireRunOnce: {"skipped superseded", "skipped superseded", "succeeded", "succeeded"},
		jobs.MisfireRunAll:  {"skipped superseded", "succeeded", "succeeded", "succeeded"},
	} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				hog, j := once(t, "hog", 50*time.Second, "orders"),
					job(t, "job", time.Minute, "orders")
				j.MisfireBy = jobs.MisfireRules{LockHeld: policy, Limit: 2}
				j.Overlap = jobs.OverlapQueue
				handlers := []jobs.Registration{jobs.Handle("work",
					func(_ context.Context, run *jobs.Run, _ struct{}) error {
						if run.Job == "hog" {
							time.Sleep(160 * time.Second)
						}
						return nil
					})}
				stop := c.start(c.options("a", handlers, hog, j))
				time.Sleep(4*time.Minute + 30*time.Second)
				stop()
				if got := c.outcomes("job"); !slices.Equal(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
			})
		})
	}
}

// If the job's next scheduled time ends a wait before its tries do, the same policy applies.
func TestFiringWithTriesLeftFollowsItsWaitPolicy(t *testing.T) {
	for policy, want := range map[jobs.Misfire][]string{
		jobs.MisfireSkip:    {"skipped lock_held", "skipped lock_held", "succeeded"},
		jobs.MisfireRunOnce: {"skipped superseded", "skipped superseded", "succeeded"},
		jobs.MisfireRunAll:  {"skipped superseded", "succeeded", "succeeded"},
	} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				hog, j := once(t, "hog", 50*time.Second, "orders"),
					job(t, "job", time.Minute, "orders")
				j.MisfireBy = jobs.MisfireRules{LockHeld: policy, Limit: 2}
				j.Overlap, j.Wait = jobs.OverlapQueue,
					retry.Policy{Elapsed: time.Hour, Delay: time.Second}
				handlers := []jobs.Registration{jobs.Handle("work",
					func(_ context.Context, run *jobs.Run, _ struct{}) error {
						if run.Job == "hog" {
							time.Sleep(160 * time.Second)
						}
						return nil
					})}
				stop := c.start(c.options("a", handlers, hog, j))
				time.Sleep(3*time.Minute + 55*time.Second)
				stop()
				if got := c.outcomes("job"); !slices.Equal(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
			})
		})
	}
}

func TestScheduledTimesOfAPauseAreDecidedWhenItEnds(t *testing.T) {
	for policy, want := range map[jobs.Misfire][]string{
		"":                  {"missed paused", "missed paused"},
		jobs.MisfireRunOnce: {"missed superseded", "succeeded"},
	} {
		t.Run("policy "+string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				j := job(t, "job", time.Minute)
				j.MisfireBy.Paused = policy
				c.outage(30*time.Second, j)
				resume := c.pause("alice")
				// No replica is live at the scheduled times. The misfire check must not start
				// firings that a pause holds back.
				time.Sleep(2*time.Minute + 5*time.Second)
				stop := c.start(c.options("a", takes(time.Second), j))
				time.Sleep(20 * time.Second)
				if got := c.outcomes("job"); len(got) != 0 {
					t.Errorf("decided in the pause: %v", got)
				}
				resume()
				time.Sleep(30 * time.Second)
				stop()
				got := c.runs("job")
				if outcomes := c.outcomes("job"); len(outcomes) < 2 ||
					!slices.Equal(outcomes[:2], want) {
					t.Errorf("got %v, want %v", outcomes, want)
				} else if !strings.Contains(got[0].Detail,
					"everything was paused by alice at 2000-01-01T00:00:31Z and resumed by alice") {
					t.Errorf("got detail %q", got[0].Detail)
				}
			})
		})
	}
}

// slowStart is a store that receives starts with a delay.
type slowStart struct {
	storage.Store
	takes time.Duration
}

func (s slowStart) Start(ctx context.Context, session uuid.UUID,
	requests []storage.StartRequest) ([]storage.StartResult, error) {
	time.Sleep(s.takes)
	return s.Store.Start(ctx, session, requests)
}

func TestClaimAfterTheDeadlineIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		handlers, calls := counting(time.Second)
		j := once(t, "job", 10*time.Second, "orders")
		j.Deadline = time.Second
		o, h := c.options("a", handlers, j), &hearing{}
		o.Store = slowStart{c.store, 3 * time.Second}
		o.Listeners = []jobs.Listener{h.listen}
		stop := c.start(o)
		time.Sleep(30 * time.Second)
		r := c.runs("job")
		if calls("job") != 0 || len(r) != 1 || r[0].State != jobs.Skipped ||
			r[0].Reason != reasons.Deadline ||
			!strings.Contains(r[0].Detail, "did not answer in time") {
			t.Errorf("%d calls, runs %+v", calls("job"), r)
		}
		if locks, err := c.store.Locks(t.Context()); err != nil || len(locks) > 0 {
			t.Errorf("still granted: %v, %v", locks, err)
		}
		stop()
		if got := h.of("job"); got != "scheduled, skipped deadline" {
			t.Errorf("events: %s", got)
		}
	})
}

// After an outage of any length, the record contains the time since which no replica was live.
func TestOutageIsRecordedFromItsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFileCluster(t)
		j := job(t, "job", 24*time.Hour)
		j.Misfire = jobs.MisfireSkip
		c.outage(50*time.Hour, j)
		stop := c.start(c.options("a", takes(0), j))
		time.Sleep(30 * time.Second)
		stop()
		r := c.runs("job")
		if len(r) != 2 || r[0].Reason != reasons.Misfire ||
			!strings.Contains(r[1].Detail, "no replica was up since 2000-01-01T00:00:0") {
			t.Errorf("recorded %+v", r)
		}
	})
}

func TestReplicaWhoseGroupIsFullLeavesRunsToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		j := job(t, "job", 24*time.Hour)
		j.Group, j.GroupLimits.PerReplica, j.Overlap = "night", 1, jobs.OverlapAllow
		trigger := func(key string) {
			t.Helper()
			if _, err := c.store.Trigger(t.Context(), byHand,
				storage.TriggerRequest{Job: "job", Key: key}); err != nil {
				t.Fatal(err)
			}
		}
		stopBusy := c.start(c.options("busy", takes(20*time.Second), j))
		time.Sleep(5 * time.Second)
		trigger("first")
		time.Sleep(5 * time.Second)
		trigger("second")
		time.Sleep(2 * time.Second)
		stopIdle := c.start(c.options("idle", takes(time.Second), j))
		time.Sleep(5 * time.Second)
		for _, r := range c.runs("job") {
			if want := map[string]string{"first": "busy",
				"second": "idle"}[r.Key]; r.Replica != want {
				t.Errorf("%s was taken up by %q, want %s", r.Key, r.Replica, want)
			}
		}
		stopBusy()
		stopIdle()
	})
}

// Waiting runs of a group are shared by the replicas that have slots for them, whether they come
// from the store or from triggers on a replica. Runs of no group take the other workers meanwhile.
func TestReplicaAdoptsOnlyRunsWithSlotsOfTheirGroup(t *testing.T) {
	for _, by := range []string{"the store", "a replica"} {
		t.Run("triggered by "+by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				grouped, plain := triggerable(t, "grouped"), triggerable(t, "plain")
				grouped.Group, grouped.GroupLimits.PerReplica = "night", 1
				grouped.Overlap, plain.Overlap = jobs.OverlapAllow, jobs.OverlapAllow
				o := c.options("a", takes(20*time.Second), grouped, plain)
				o.Workers = 16 // a replica without a free worker adopts a run too
				a, stopA := c.begin(o)
				o.Replica = "b"
				stopB := c.start(o)
				time.Sleep(10500 * time.Millisecond)
				triggers := c.store.Trigger
				if by == "a replica" {
					triggers = a.Trigger
				}
				var all sync.WaitGroup
				for i := range 14 {
					name := "plain"
					if i < 4 {
						name = "grouped"
					}
					all.Go(func() {
						if _, err := triggers(t.Context(), byHand,
							storage.TriggerRequest{Job: name, Key: fmt.Sprint(i)}); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				time.Sleep(1500 * time.Millisecond)
				running := map[string]int{}
				for _, r := range slices.Concat(c.runs("grouped"), c.runs("plain")) {
					if r.State == jobs.Running {
						running[r.Job+" on "+r.Replica]++
					}
				}
				if running["plain on a"]+running["plain on b"] != 10 ||
					running["grouped on a"] != 1 || running["grouped on b"] != 1 {
					t.Errorf("running: %v, want all of plain, and one of grouped on each replica",
						running)
				}
				time.Sleep(time.Minute)
				ran := map[string]int{}
				for _, r := range c.runs("grouped") {
					ran[string(r.State)+" on "+r.Replica]++
				}
				if ran["succeeded on a"] != 2 || ran["succeeded on b"] != 2 {
					t.Errorf("grouped: %v, want two runs on each replica", ran)
				}
				stopA()
				stopB()
			})
		})
	}
}

// The next run of a group is adopted when a slot becomes free, and not at the next poll. A later
// trigger on the replica does not overtake the runs that wait in the store.
func TestRunsOfAFullGroupFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		grouped := triggerable(t, "grouped")
		grouped.Group, grouped.GroupLimits.PerReplica = "night", 1
		grouped.Overlap = jobs.OverlapAllow
		stop := c.start(c.options("former", takes(0), grouped))
		time.Sleep(time.Second)
		stop()
		trigger := func(by func(context.Context, storage.Action, storage.TriggerRequest) (
			storage.Triggered, error), key string) {
			t.Helper()
			if _, err := by(t.Context(), byHand,
				storage.TriggerRequest{Job: "grouped", Key: key}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		for i := range 8 {
			trigger(c.store.Trigger, fmt.Sprint(i))
		}
		a, stop := c.begin(c.options("a", takes(50*time.Millisecond), grouped))
		time.Sleep(120 * time.Millisecond)
		trigger(a.Trigger, "last")
		time.Sleep(800 * time.Millisecond)
		all := c.runs("grouped")
		slices.SortFunc(all, func(a, b storage.Record) int {
			if a.StartedAt == nil || b.StartedAt == nil {
				return 0
			}
			return a.StartedAt.Compare(*b.StartedAt)
		})
		for i, want := range []string{"0", "1", "2", "3", "4", "5", "6", "7", "last"} {
			if r := all[i]; r.Key != want || r.State != jobs.Succeeded {
				t.Errorf("run %d: key %q, %s, want key %q", i, r.Key, r.State, want)
			}
		}
		stop()
	})
}

// A group with one free slot bounds how many of its runs are adopted, but not those of other jobs.
func TestAdoptionOfAGroupDelaysNoOtherJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		grouped, plain := triggerable(t, "grouped"), triggerable(t, "plain")
		grouped.Group, grouped.GroupLimits.PerReplica = "night", 1
		grouped.Overlap, plain.Overlap = jobs.OverlapAllow, jobs.OverlapAllow
		stop := c.start(c.options("former", takes(0), grouped, plain))
		time.Sleep(time.Second)
		stop()
		for i := range 14 {
			name := "grouped"
			if i >= 4 {
				name = "plain"
			}
			if _, err := c.store.Trigger(t.Context(), byHand,
				storage.TriggerRequest{Job: name, Key: fmt.Sprint(i)}); err != nil {
				t.Fatal(err)
			}
		}
		store := &adopting{Store: c.store}
		o := c.options("a", takes(20*time.Second), grouped, plain)
		o.Store, o.Workers = store, 8
		stop = c.start(o)
		time.Sleep(500 * time.Millisecond)
		running := map[string]int{}
		for _, r := range slices.Concat(c.runs("grouped"), c.runs("plain")) {
			if r.State == jobs.Running {
				running[r.Job]++
			}
		}
		store.mu.Lock()
		if running["grouped"] != 1 || running["plain"] != 7 || !slices.Contains(store.limits, 7) {
			t.Errorf("running: %v, adopted up to %v at once, want 1 of grouped, and 7 of plain "+
				"at once", running, store.limits)
		}
		store.mu.Unlock()
		stop()
	})
}
