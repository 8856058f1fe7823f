package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// laborious is a store whose misfire checks take perJob for each job. A check that exceeds its
// deadline records nothing.
type laborious struct {
	storage.Store
	perJob time.Duration

	mu    sync.Mutex
	pages []int // number of jobs of each call that met its deadline
	asked map[string]int
}

func (l *laborious) CheckMisfires(ctx context.Context, checks []storage.MisfireCheck,
	find func(string, storage.Cursor) []storage.Misfired) (map[string]time.Time, error) {
	if sleep.For(ctx, time.Duration(len(checks))*l.perJob) != nil {
		return nil, fmt.Errorf("misfire check: %w: %w", storage.ErrUnavailable, ctx.Err())
	}
	l.mu.Lock()
	l.pages = append(l.pages, len(checks))
	l.mu.Unlock()
	return l.Store.CheckMisfires(ctx, checks,
		func(job string, c storage.Cursor) []storage.Misfired {
			l.mu.Lock()
			l.asked[job]++
			l.mu.Unlock()
			return find(job, c)
		})
}

func TestMisfiresOfALongOutageAreRecordedInPages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		jobs    int
		perJob  time.Duration
		takes   time.Duration // until all misfires are recorded
		largest int           // number of jobs in the largest page
	}{
		"no delay":                        {300, 0, 2 * time.Second, 50},
		"a page takes most of a call":     {120, 90 * time.Millisecond, 20 * time.Second, 50},
		"a page takes more than a call":   {20, time.Second, 55 * time.Second, 3},
		"a job takes as long as one call": {4, 4900 * time.Millisecond, 55 * time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newCluster(t)
				table := make([]jobs.Job, c.jobs)
				for i := range table {
					table[i] = job(t, fmt.Sprintf("job-%03d", i), time.Minute)
					table[i].Misfire = jobs.MisfireSkip
				}
				stop := cl.start(cl.options("a", takes(0), table...))
				time.Sleep(time.Second)
				stop()
				time.Sleep(24 * time.Hour)
				store := &laborious{Store: cl.store, perJob: c.perJob, asked: map[string]int{}}
				o := cl.options("a", takes(0), table...)
				o.Store = store
				stop = cl.start(o)
				time.Sleep(c.takes)
				stop()
				largest := 0
				for _, jobs := range store.pages {
					largest = max(largest, jobs)
				}
				if largest != c.largest {
					t.Errorf("pages of %v jobs, want none larger than %d", store.pages, c.largest)
				}
				if len(store.asked) != c.jobs {
					t.Errorf("%d jobs of %d were checked within %s", len(store.asked), c.jobs,
						c.takes)
				}
				records, err := cl.store.Runs(context.Background(),
					storage.RunFilter{Job: table[c.jobs-1].Name, States: []jobs.State{jobs.Missed},
						Limit: storage.MaxBatch})
				if err != nil || len(records) < 100 {
					t.Errorf("%d scheduled times of the last job recorded, %v", len(records), err)
				}
			})
		})
	}
}

// Without faults a replica checks a job once after each scheduled time, and not at each round.
func TestMisfiresAreCheckedOnlyAfterAScheduledTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		store := &laborious{Store: c.store, asked: map[string]int{}}
		var stops []func()
		for _, name := range []string{"a", "b", "c"} {
			o := c.options(name, takes(0), job(t, "minutely", time.Minute),
				job(t, "daily", 24*time.Hour))
			o.Store = store
			stops = append(stops, c.start(o))
		}
		time.Sleep(10*time.Minute + 45*time.Second)
		for _, stop := range stops {
			stop()
		}
		if store.asked["minutely"] != 10 || store.asked["daily"] != 0 {
			t.Errorf("asked for %v in ten minutes, want minutely 10 times", store.asked)
		}
	})
}

// Misfires of jobs that other replicas fire are theirs to check.
func TestMisfiresOfJobsThatOthersFireAreNotChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		before, after := twoDefinitions(t)
		store := &laborious{Store: c.store, asked: map[string]int{}}
		o := c.options("old", takes(0), before)
		o.Store = store
		stopOld := c.start(o)
		time.Sleep(10 * time.Second)
		stopNew := c.start(c.options("new", takes(0), after))
		time.Sleep(time.Minute)
		stopOld()
		stopNew()
		if len(store.pages) > 0 {
			t.Errorf("%d checks of a job that others fire", len(store.pages))
		}
	})
}

// checkTimes is a store that records the cluster times of misfire checks.
type checkTimes struct {
	storage.Store

	mu    sync.Mutex
	asked []time.Time
}

func (a *checkTimes) CheckMisfires(ctx context.Context, checks []storage.MisfireCheck,
	find func(string, storage.Cursor) []storage.Misfired) (map[string]time.Time, error) {
	a.mu.Lock()
	for _, c := range checks {
		a.asked = append(a.asked, c.CallerTime)
	}
	a.mu.Unlock()
	return a.Store.CheckMisfires(ctx, checks, find)
}

// The store compares the cluster time of a check with its own clock, so that a replica whose
// measurement is wrong decides no scheduled time early.
func TestMisfireChecksCarryClusterTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		const ahead = 5 * time.Second
		clock := &skewed{Store: c.store}
		clock.ahead.Store(int64(ahead))
		store := &checkTimes{Store: clock}
		o := c.options("a", takes(0), job(t, "job", time.Minute))
		o.Store = store
		begin := time.Now().Add(ahead)
		stop := c.start(o)
		time.Sleep(3 * time.Minute)
		stop()
		if len(store.asked) == 0 {
			t.Fatal("misfire checks: got none")
		}
		for _, asked := range store.asked {
			if asked.Before(begin) || asked.After(time.Now().Add(ahead)) {
				t.Errorf("cluster time of a check: %s, want it between %s and now", asked, begin)
			}
		}
	})
}
