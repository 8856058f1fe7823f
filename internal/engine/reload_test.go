package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/retry"
)

// A replica changes a job that fires every second and changes it back, alone or beside another
// replica.
func TestReloadsLoseAndDoubleNoFiring(t *testing.T) {
	for _, beside := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t)
			before, after := twoDefinitions(t)
			replica, stop := c.begin(c.options("a", takes(0), before))
			stopOther := func() {}
			if beside {
				stopOther = c.start(c.options("b", takes(0), before))
			}
			for i := range 40 {
				next := after
				if i%2 == 1 {
					next = before
				}
				if i%5 == 4 {
					next.Description = "described anew"
				}
				time.Sleep(1370 * time.Millisecond)
				revision, err := replica.SetJobs([]jobs.Job{next})
				if err != nil || len(revision.Changed) != 1 ||
					len(revision.Added)+len(revision.Removed) != 0 {
					t.Fatalf("revision %+v, %v", revision, err)
				}
			}
			time.Sleep(3 * time.Second)
			stop()
			stopOther()
			// it fails the test unless each scheduled time has one successful run
			c.byReplica("job")
			if n := len(c.runs("job")); n < 55 {
				t.Errorf("%d runs", n)
			}
		})
	}
}

// The reloads add, change and remove a job. Meanwhile one job runs and one waits for its lock. A
// reload with a mistake changes nothing.
func TestReloadChangesTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		end := make(chan struct{})
		hold := jobs.Handle("work", func(ctx context.Context, run *jobs.Run, _ struct{}) error {
			if run.Job != "holder" {
				return nil
			}
			select {
			case <-end:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		holder, waiter, stays, leaves, added := job(t, "holder", 20*time.Second, "shared"),
			job(t, "waiter", 30*time.Second, "shared"),
			job(t, "stays", time.Second), job(t, "leaves", time.Second),
			job(t, "comes", time.Second)
		waiter.Wait.Attempts, waiter.Wait.Elapsed, waiter.Wait.Delay = 0, 30*time.Minute,
			time.Second
		registrations := []jobs.Registration{hold}
		replica, stop := c.begin(c.options("a", registrations, holder, waiter, stays, leaves))
		// between scheduled times, as the following steps
		time.Sleep(35*time.Second + 500*time.Millisecond)
		if got := c.outcomes("holder"); len(got) == 0 || got[0] != "running" {
			t.Fatalf("holder: %q", got)
		}
		left := len(c.runs("leaves"))
		wrong := added
		wrong.Handler = "unknown"
		if _, err := replica.SetJobs([]jobs.Job{stays, wrong}); err == nil {
			t.Error("job of an unknown handler: got success, want an error")
		}
		time.Sleep(10 * time.Second)
		if n := len(c.runs("leaves")); n != left+10 {
			t.Errorf("after a mistake there are %d runs more, want 10", n-left)
		}
		later := stays
		later.Schedule = every(t, 2*time.Second)
		revision, err := replica.SetJobs([]jobs.Job{later, added})
		if err != nil || len(revision.Added) != 1 || len(revision.Changed) != 1 ||
			len(revision.Removed) != 3 {
			t.Fatalf("revision %+v, %v", revision, err)
		}
		left, stayed := len(c.runs("leaves")), len(c.runs("stays"))
		time.Sleep(20 * time.Second)
		if n := len(c.runs("leaves")); n != left {
			t.Errorf("a removed job has %d runs more", n-left)
		}
		if n := len(c.runs("stays")) - stayed; n < 9 || n > 11 {
			t.Errorf("the changed job has %d runs more in 20 s, want one every 2 s", n)
		}
		if n := len(c.runs("comes")); n < 19 || n > 21 {
			t.Errorf("the added job has %d runs in 20 s, want one a second", n)
		}
		if got := c.outcomes("waiter"); len(got) == 0 ||
			got[0] != "skipped "+string(reasons.JobGone) {
			t.Errorf("what waited of a removed job: %q", got)
		}
		close(end)
		time.Sleep(time.Second)
		if got := c.outcomes("holder"); len(got) == 0 || got[0] != "succeeded" {
			t.Errorf("what ran of a removed job: %q", got)
		}
		stop()
	})
}

// A replica adopts a run between two attempts. The run waits for a lock when a reload removes its
// job: it ends in the same state as after a deploy (in jobstest: "a run that waits for its next
// attempt is cancelled").
func TestReloadCancelsARunBetweenAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		work := jobs.Handle("work", func(ctx context.Context, run *jobs.Run, _ struct{}) error {
			if run.Job == "retries" {
				return errors.New("not yet")
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		handlers := []jobs.Registration{work}
		retries, holder := once(t, "retries", 10*time.Second, "orders"),
			once(t, "holder", 12*time.Second, "orders")
		retries.Retry = retry.Policy{Attempts: 2, Delay: 10 * time.Second,
			Backoff: retry.Constant}
		retries.Wait = retry.Policy{Elapsed: time.Hour, Delay: time.Second,
			Backoff: retry.Constant}
		stopFirst := c.start(c.options("a", handlers, retries))
		replica, stop := c.begin(c.options("b", handlers, holder))
		time.Sleep(15 * time.Second)
		stopFirst()
		reload := func(want string, table ...jobs.Job) {
			t.Helper()
			if _, err := replica.SetJobs(table); err != nil {
				t.Error(err)
			}
			time.Sleep(20 * time.Second)
			if got := c.outcomes("retries"); !slices.Equal(got, []string{want}) {
				t.Errorf("got %q, want %s", got, want)
			}
		}
		reload("waiting lock_held", retries, holder)
		reload("cancelled job_gone", holder)
		r := c.runs("retries")[0]
		if want := "attempt 2 did not start: the job was removed"; r.Error != "not yet" ||
			!strings.HasPrefix(r.Detail, want) {
			t.Errorf("got error %q, detail %q, want the error of attempt 1 and %q", r.Error,
				r.Detail, want)
		}
		stop()
	})
}

// The hash of a definition covers neither what a trigger can override nor what is secret. A reload
// applies changes of both.
func TestReloadChangesOverridableParamsAndSecrets(t *testing.T) {
	const token = "hunter2hunter2"
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		prints := jobs.Handle("work", func(_ context.Context, run *jobs.Run, _ struct{}) error {
			fmt.Fprintf(run.Output(), "token %s\n", token)
			return nil
		})
		before := job(t, "job", 10*time.Second)
		before.Overridable = []string{"region"}
		replica, stop := c.begin(c.options("a", []jobs.Registration{prints}, before))
		time.Sleep(15 * time.Second)
		reload := func(next jobs.Job) {
			t.Helper()
			if r, err := replica.SetJobs([]jobs.Job{next}); err != nil ||
				!slices.Equal(r.Changed, []string{"job"}) {
				t.Errorf("revision %+v, %v, want the job as changed", r, err)
			}
		}
		after := before
		after.Overridable = nil
		reload(after)
		if now, _ := replica.Configured("job"); len(now.Overridable) > 0 {
			t.Errorf("a trigger can still override %q", now.Overridable)
		}
		after.Secrets = []string{token}
		reload(after)
		time.Sleep(10 * time.Second)
		stop()
		runs := c.runs("job")
		run, err := c.store.Run(t.Context(), runs[len(runs)-1].ID)
		if err != nil || run.Output != "token [redacted]\n" {
			t.Errorf("output %q, %v, want the token redacted", run.Output, err)
		}
	})
}

// cutOff is a store that for some time cannot withdraw definitions.
type cutOff struct {
	storage.Store
	until time.Time
}

func (s *cutOff) Withdraw(ctx context.Context, session uuid.UUID, table string,
	names []string) error {
	if time.Now().Before(s.until) {
		return errors.Join(storage.ErrUnavailable, errors.New("cut off"))
	}
	return s.Store.Withdraw(ctx, session, table, names)
}

// opening is a store that calls a function while a session is opened.
type opening struct {
	storage.Store
	meanwhile func()
}

func (o *opening) Open(ctx context.Context, s storage.Session) error {
	defer o.meanwhile()
	return o.Store.Open(ctx, s)
}

// A session is opened with the jobs of before the reload. The store gets the new ones.
func TestReloadWhileASessionIsOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		before, after := twoDefinitions(t)
		store := &opening{Store: c.store}
		o := c.options("a", takes(0), before)
		o.Store = store
		var replica *engine.Scheduler
		var stop func()
		begun := make(chan struct{})
		store.meanwhile = func() {
			<-begun
			if _, err := replica.SetJobs([]jobs.Job{after}); err != nil {
				t.Error(err)
			}
		}
		replica, stop = c.begin(o)
		close(begun)
		other, stopOther := c.begin(c.options("b", takes(0), after))
		time.Sleep(30*time.Second + 500*time.Millisecond)
		if n := other.CronTables(); n != 1 {
			t.Errorf("%d different cron tables after the reload, want 1", n)
		}
		stop()
		stopOther()
	})
}

// Until the store replies, the job is not fired. No scheduled time of it is lost.
func TestReloadIsReportedWhenTheStoreAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		before, after := twoDefinitions(t)
		o := c.options("a", takes(0), before)
		o.Store = &cutOff{Store: c.store, until: time.Now().Add(20 * time.Second)}
		replica, stop := c.begin(o)
		time.Sleep(10 * time.Second)
		if _, err := replica.SetJobs([]jobs.Job{after}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20*time.Second + 500*time.Millisecond) // nothing is scheduled when it stops
		stop()
		c.byReplica("job")
		if n := len(c.runs("job")); n < 29 {
			t.Errorf("%d runs", n)
		}
		views, err := c.store.Jobs(t.Context())
		if err != nil || len(views) != 1 || views[0].Version != 2 {
			t.Errorf("jobs %+v, %v; want version 2", views, err)
		}
	})
}
