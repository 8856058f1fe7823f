package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/retry"
)

// dependent returns a job that runs after others.
func dependent(t *testing.T, name string, after ...string) jobs.Job {
	t.Helper()
	s, err := schedule.Parse(schedule.Spec{After: after}, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	j := job(t, name, time.Hour)
	j.Schedule = s
	return j
}

// journal is a handler that takes the time given for its job and records the order in which firings
// end. Its methods may be called concurrently.
type journal struct {
	mu    sync.Mutex
	takes map[string]time.Duration
	fails map[string]bool // by job and time of day: "a 00:01:00"
	ended []string
}

func (j *journal) handlers() []jobs.Registration {
	return []jobs.Registration{jobs.Handle("work",
		func(ctx context.Context, run *jobs.Run, _ struct{}) error {
			entry := run.Job + " " + run.ScheduledAt.Format(time.TimeOnly)
			j.mu.Lock()
			takes, fails := j.takes[run.Job], j.fails[entry]
			j.mu.Unlock()
			if err := sleep.For(ctx, takes); err != nil {
				return err
			}
			if fails {
				return errors.New("as it was told to")
			}
			j.mu.Lock()
			defer j.mu.Unlock()
			j.ended = append(j.ended, entry)
			return nil
		})}
}

// ranFor returns the scheduled times of a job's runs with their states, the oldest first.
func (c *cluster) ranFor(job string) string {
	var all []string
	for _, r := range c.runs(job) {
		text := r.ScheduledAt.Format(time.TimeOnly)
		if r.State != jobs.Succeeded {
			text = strings.TrimSpace(fmt.Sprintf("%s %s %s", text, r.State, r.Reason))
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func TestDependentsAreDueWhenAllHaveSucceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		work := &journal{takes: map[string]time.Duration{"extract": 5 * time.Second,
			"load": 8 * time.Second, "clean": time.Second, "report": time.Second}}
		table := []jobs.Job{
			job(t, "extract", time.Minute), job(t, "load", 2*time.Minute),
			dependent(t, "clean", "extract"),
			// a chain, with every second scheduled time of extract
			dependent(t, "report", "clean", "load"),
		}
		var stops []func()
		for _, name := range []string{"a", "b", "c"} {
			stops = append(stops, c.start(c.options(name, work.handlers(), table...)))
		}
		time.Sleep(4*time.Minute + 30*time.Second)
		for _, stop := range stops {
			stop()
		}
		for name, want := range map[string]string{
			"extract": "00:01:00, 00:02:00, 00:03:00, 00:04:00", "clean": "00:01:00, 00:02:00, 00:03:00, 00:04:00",
			"load": "00:02:00, 00:04:00", "report": "00:02:00, 00:04:00",
		} {
			if got := c.ranFor(name); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
		for i, r := range c.runs("report") {
			clean, load := c.runs("clean")[2*i+1], c.runs("load")[i]
			wait := r.StartedAt.Sub(*load.FinishedAt)
			if clean.FinishedAt.After(*load.FinishedAt) || wait < 0 ||
				wait > 1100*time.Millisecond {
				t.Errorf("report of %s started %s after load, which ended %s after clean",
					r.ScheduledAt, wait, load.FinishedAt.Sub(*clean.FinishedAt))
			}
		}
	})
}

func TestDependentsAreNotDueAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		work := &journal{fails: map[string]bool{"extract 00:02:00": true}}
		stop := c.start(c.options("a", work.handlers(), job(t, "extract", time.Minute),
			dependent(t, "load", "extract")))
		time.Sleep(10 * time.Minute)
		stop()
		if got := c.ranFor("load"); strings.Contains(got, "00:02:00") ||
			!strings.HasPrefix(got, "00:01:00, 00:03:00, 00:04:00") {
			t.Errorf("load ran for %s", got)
		}
		versions, err := c.store.Versions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		behind := versions["extract"].CheckedUntil.Sub(versions["load"].CheckedUntil)
		if behind > 2*time.Minute {
			t.Errorf("the cursor of load is %s behind that of extract", behind)
		}
	})
}

// A scheduled time does not wait for an earlier one whose dependency still runs. Later both may be
// ready at once. Then the job's overlap policy decides.
func TestDependentsContinueAfterALongRun(t *testing.T) {
	for overlap, skipped := range map[jobs.Overlap]int{jobs.OverlapSkip: 1, jobs.OverlapQueue: 0,
		jobs.OverlapAllow: 0} {
		t.Run(string(overlap), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				slow := jobs.Handle("work",
					func(ctx context.Context, run *jobs.Run, _ struct{}) error {
						if run.Job == "extract" &&
							run.ScheduledAt.Format(time.TimeOnly) == "00:01:00" {
							time.Sleep(20 * time.Minute)
						}
						if run.Job == "load" {
							time.Sleep(20 * time.Second) // longer than the wait for locks
						}
						return nil
					})
				extract, load := job(t, "extract", time.Minute), dependent(t, "load", "extract")
				extract.Overlap, load.Overlap = jobs.OverlapAllow, overlap
				stop := c.start(c.options("a", []jobs.Registration{slow}, extract, load))
				time.Sleep(10*time.Minute + 30*time.Second)
				if got := c.ranFor("load"); !strings.HasPrefix(got, "00:02:00, ") ||
					strings.Count(got, ",") != 8 {
					t.Errorf("meanwhile load ran for %s", got)
				}
				time.Sleep(11*time.Minute + 15*time.Second)
				if got := c.ranFor("load"); !strings.HasPrefix(got, "00:01:00") ||
					strings.Count(got, ",") != 20 ||
					strings.Count(got, "skipped overlap") != skipped {
					t.Errorf("afterwards load ran for %s", got)
				}
				stop()
			})
		})
	}
}

// A dependent has no next scheduled time that ends its wait. A firing behind one that waits for a
// lock is skipped.
func TestDependentsDoNotAccumulate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		work := &journal{takes: map[string]time.Duration{"hog": 5 * time.Minute}}
		load := dependent(t, "load", "extract")
		load.Resources, load.Overlap = job(t, "load", time.Hour, "orders").Resources,
			jobs.OverlapQueue
		load.Wait = retry.Policy{Elapsed: 20 * time.Minute, Delay: 5 * time.Second}
		stop := c.start(c.options("a", work.handlers(), once(t, "hog", 30*time.Second, "orders"),
			job(t, "extract", time.Minute), load))
		time.Sleep(6*time.Minute + 30*time.Second)
		stop()
		want := "00:01:00, 00:02:00 skipped older_waiter, 00:03:00 skipped older_waiter, " +
			"00:04:00 skipped older_waiter, 00:05:00 skipped older_waiter, 00:06:00"
		if got := c.ranFor("load"); got != want {
			t.Errorf("load ran for %s, want %s", got, want)
		}
	})
}

func TestDependentsFireAfterARecovery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		dying := &faultyStore{Store: c.store}
		extract := once(t, "extract", time.Minute)
		extract.Recover = true
		table := []jobs.Job{extract, dependent(t, "load", "extract")}
		o := c.options("dying", takes(time.Minute), table...)
		o.Store = dying
		stopDying := c.start(o)
		time.Sleep(70 * time.Second)
		dying.down.Store(true)
		dying.dead.Store(true)
		stop := c.start(c.options("living", takes(time.Second), table...))
		time.Sleep(2 * time.Minute)
		stop()
		stopDying()
		if got := c.outcomes("extract"); len(got) != 2 || !slices.Contains(got, "succeeded") ||
			!slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "lost") }) {
			t.Fatalf("extract: %v", got)
		}
		if got := c.ranFor("load"); got != "00:01:00" {
			t.Errorf("load ran for %s", got)
		}
	})
}

// Firings that became ready while no replica was live are late. The misfire policy decides when a
// replica starts.
func TestDependentsMisfire(t *testing.T) {
	for policy, want := range map[jobs.Misfire]string{
		jobs.MisfireRunOnce: "00:01:00 missed superseded, 00:02:00",
		jobs.MisfireSkip:    "00:01:00 missed misfire, 00:02:00 missed misfire",
		jobs.MisfireRunAll:  "00:01:00, 00:02:00",
	} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				load := dependent(t, "load", "extract")
				load.Misfire = policy
				stopFirst := c.start(c.options("knows both", takes(0),
					job(t, "extract", time.Minute), load))
				time.Sleep(30 * time.Second)
				stopFirst()
				stopSecond := c.start(c.options("knows one", takes(0),
					job(t, "extract", time.Minute)))
				time.Sleep(2 * time.Minute)
				stopSecond()
				time.Sleep(time.Minute)
				stop := c.start(c.options("knows both", takes(0), load,
					neverScheduled(t, "extract")))
				time.Sleep(20 * time.Second)
				if got := c.ranFor("load"); got != want {
					t.Errorf("load: %s, want %s", got, want)
				}
				stop()
			})
		})
	}
}

// An overdue firing does not wait for an earlier scheduled time whose dependency has not ended.
func TestDependentsMisfireAfterAnOpenScheduledTime(t *testing.T) {
	for policy, want := range map[jobs.Misfire]string{
		jobs.MisfireRunOnce: "00:01:00 missed superseded, 00:03:00 missed superseded, 00:04:00",
		jobs.MisfireSkip: "00:01:00 missed misfire, 00:03:00 missed misfire, " +
			"00:04:00 missed misfire",
		jobs.MisfireRunAll: "00:01:00, 00:03:00, 00:04:00",
	} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				// The first attempt for 00:02 fails, and the second one is half an hour later.
				work := &journal{fails: map[string]bool{"extract 00:02:00": true}}
				extract, load := job(t, "extract", time.Minute), dependent(t, "load", "extract")
				extract.Retry = retry.Policy{Attempts: 2, Delay: 30*time.Minute + 30*time.Second}
				extract.Overlap, load.Misfire = jobs.OverlapAllow, policy
				stopFirst := c.start(c.options("knows both", work.handlers(), extract, load))
				time.Sleep(30 * time.Second)
				stopFirst()
				stopOther := c.start(c.options("knows one", work.handlers(), extract))
				time.Sleep(4*time.Minute + 10*time.Second)
				work.mu.Lock()
				work.fails = nil
				work.mu.Unlock()
				stop := c.start(c.options("knows both", work.handlers(), extract, load))
				time.Sleep(15 * time.Second)
				if got := c.ranFor("load"); got != want {
					t.Errorf("during the back-off load: %s, want %s", got, want)
				}
				time.Sleep(28 * time.Minute)
				stop()
				stopOther()
				first, rest, _ := strings.Cut(want, ", ")
				want := first + ", 00:02:00, " + rest + ", 00:05:00, 00:06:00"
				if got := c.ranFor("load"); !strings.HasPrefix(got, want) {
					t.Errorf("afterwards load: %s, want %s", got, want)
				}
			})
		})
	}
}

// No firing is lost if a dependent has more open firings than the store returns at once.
func TestDependentsWithManyOpenFirings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		quiet, err := schedule.NewCalendar(schedule.CalendarSpec{Name: "quiet",
			Exclude: schedule.TimesSpec{Windows: []string{"00:01-00:30"}}})
		if err != nil {
			t.Fatal(err)
		}
		work := &journal{fails: map[string]bool{"extract 00:00:45": true}}
		extract, load := job(t, "extract", time.Second), dependent(t, "load", "extract")
		extract.Retry = retry.Policy{Attempts: 2, Delay: 22 * time.Minute}
		extract.Overlap, load.Misfire = jobs.OverlapAllow, jobs.MisfireSkip
		load.Schedule = load.Schedule.WithCalendars(quiet)
		stopFirst := c.start(c.options("knows both", work.handlers(), extract, load))
		time.Sleep(40 * time.Second)
		stopFirst()
		stopOther := c.start(c.options("knows one", work.handlers(), extract))
		time.Sleep(20 * time.Minute)
		work.mu.Lock()
		work.fails = nil
		work.mu.Unlock()
		stop := c.start(c.options("knows both", work.handlers(), extract, load))
		time.Sleep(3 * time.Minute)
		stop()
		stopOther()
		got := c.ranFor("load")
		if want := "00:00:44 missed misfire, 00:00:45, 00:00:46 missed misfire"; !strings.Contains(
			got, want) || !strings.HasSuffix(got, "00:00:59 missed misfire") {
			t.Errorf("load: %s, want %s and so on until 00:00:59", got, want)
		}
	})
}

// newestOnly is a store that cannot read older pages of open firings.
type newestOnly struct {
	storage.Store
	fail func(ctx context.Context) error
}

func (n newestOnly) OpenFirings(ctx context.Context,
	dependents []storage.Dependent) (map[string]storage.OpenFirings, error) {
	if !dependents[0].Before.IsZero() {
		return nil, n.fail(ctx)
	}
	return n.Store.OpenFirings(ctx, dependents)
}

// A backlog of more open firings than the store can read does not keep new ones from their start.
func TestDependentsStartIfOlderOpenFiringsCannotBeRead(t *testing.T) {
	for name, fail := range map[string]func(ctx context.Context) error{
		"error": func(context.Context) error { return storage.ErrUnavailable },
		"timeout": func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				extract, load := job(t, "extract", time.Second), dependent(t, "load", "extract")
				load.Misfire = jobs.MisfireSkip
				load.Overlap = jobs.OverlapAllow // two firings may begin at once
				stopFirst := c.start(c.options("knows both", takes(0), extract, load))
				time.Sleep(10 * time.Second)
				stopFirst()
				stopOther := c.start(c.options("knows one", takes(0), extract))
				time.Sleep(20 * time.Minute)
				o := c.options("knows both", takes(0), extract, load)
				o.Store = newestOnly{c.store, fail}
				stop := c.start(o)
				time.Sleep(30 * time.Second)
				stop()
				stopOther()
				if got := c.ranFor("load"); !strings.Contains(got, ", 00:20:20, 00:20:21, ") {
					t.Errorf("load: %s, want 00:20:20 and 00:20:21", got)
				}
			})
		})
	}
}

// neverScheduled returns an hourly definition, which replaces the one of that name.
func neverScheduled(t *testing.T, name string) jobs.Job { return job(t, name, time.Hour) }

func TestDependentsThresholdCountsFromTheLastSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		work := &journal{takes: map[string]time.Duration{"extract": 10 * time.Minute}}
		load := dependent(t, "load", "extract")
		load.Misfire, load.MisfireThreshold = jobs.MisfireSkip, 10*time.Second
		extract := once(t, "extract", time.Minute)
		table := []jobs.Job{extract, load}
		stop := c.start(c.options("a", work.handlers(), table...))
		time.Sleep(12 * time.Minute)
		stop()
		if got := c.ranFor("load"); got != "00:01:00" {
			t.Errorf("load: %s", got)
		}
	})
}

func TestCalendarsOfDependentsApplyToTheScheduledTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		quiet, err := schedule.NewCalendar(schedule.CalendarSpec{Name: "quiet",
			Exclude: schedule.TimesSpec{Windows: []string{"00:02-00:04"}}})
		if err != nil {
			t.Fatal(err)
		}
		load := dependent(t, "load", "extract")
		load.Schedule = load.Schedule.WithCalendars(quiet)
		stop := c.start(c.options("a", takes(90*time.Second), job(t, "extract", time.Minute), load,
			dependent(t, "report", "load")))
		time.Sleep(9 * time.Minute)
		stop()
		for _, name := range []string{"load", "report"} {
			if got := c.ranFor(name); strings.Contains(got, "00:02:00") ||
				strings.Contains(got, "00:03:00") || !strings.Contains(got, "00:01:00") ||
				!strings.Contains(got, "00:05:00") {
				t.Errorf("%s: got log %s, want 00:01:00 and 00:05:00 without 00:03:00", name, got)
			}
		}
	})
}

func TestDependentsAreDelayedByTheirJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		load := dependent(t, "load", "extract")
		load.Schedule, load.MisfireThreshold = load.Schedule.WithJitter(5*time.Minute),
			10*time.Second
		extract := once(t, "extract", time.Minute)
		stop := c.start(c.options("a", takes(3*time.Second), extract, load))
		time.Sleep(10 * time.Minute)
		stop()
		runs := c.runs("load")
		if len(runs) != 1 || runs[0].State != jobs.Succeeded {
			t.Fatalf("load: %+v", runs)
		}
		delay := schedule.Jitter("load", runs[0].ScheduledAt, 5*time.Minute)
		if waited := runs[0].StartedAt.Sub(*c.runs("extract")[0].FinishedAt); waited < delay ||
			waited > delay+1100*time.Millisecond {
			t.Errorf("started after %s, want %s", waited, delay)
		}
	})
}

// A replica with an old definition of a dependent leaves it to other replicas.
func TestDependentsAreFiredByTheActiveDefinition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		before := dependent(t, "load", "extract")
		after := before
		after.Timeout, after.Retry = time.Minute, retry.Policy{Attempts: 2, Delay: time.Second}
		stopOld := c.start(c.options("old", takes(0), job(t, "extract", time.Minute), before))
		time.Sleep(90 * time.Second)
		stopNew := c.start(c.options("new", takes(0), job(t, "extract", time.Minute), after))
		time.Sleep(2 * time.Minute)
		stopNew()
		time.Sleep(2 * time.Minute)
		stopOld()
		var by []string
		for _, r := range c.runs("load") {
			by = append(by, r.ScheduledAt.Format(time.TimeOnly)+" "+r.Replica)
		}
		if want := []string{"00:01:00 old", "00:02:00 new", "00:03:00 new", "00:04:00 old",
			"00:05:00 old"}; !slices.Equal(by, want) {
			t.Errorf("fired by %v, want %v", by, want)
		}
	})
}
