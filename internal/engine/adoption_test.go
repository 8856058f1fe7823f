package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/retry"
)

// adopting is a store in which tests delay, count and lose adoptions, and refuse notes.
type adopting struct {
	storage.Store
	before  time.Duration // until an adoption reaches the store
	lost    func() bool   // reports whether the reply to an adoption is lost
	refused func() bool   // reports whether a note is refused
	mu      sync.Mutex
	limits  []int
}

func (a *adopting) Adopt(ctx context.Context, session uuid.UUID,
	wanted storage.Adoption) ([]storage.Record, error) {
	a.mu.Lock()
	a.limits = append(a.limits, wanted.Limit)
	a.mu.Unlock()
	time.Sleep(a.before)
	records, err := a.Store.Adopt(ctx, session, wanted)
	if a.lost != nil && a.lost() {
		return nil, fmt.Errorf("adoption: %w: the reply is lost", storage.ErrUnavailable)
	}
	return records, err
}

// polls returns how many adoptions there were.
func (a *adopting) polls() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.limits)
}

func (a *adopting) Note(ctx context.Context, session uuid.UUID,
	notes []storage.Note) ([]bool, error) {
	if a.refused != nil && a.refused() {
		return nil, errors.New("refused")
	}
	return a.Store.Note(ctx, session, notes)
}

// counting is a handler that takes d and counts its calls by job.
func counting(d time.Duration) ([]jobs.Registration, func(job string) int) {
	var mu sync.Mutex
	calls := map[string]int{}
	handler := jobs.Handle("work", func(ctx context.Context, run *jobs.Run, _ struct{}) error {
		mu.Lock()
		calls[run.Job]++
		mu.Unlock()
		return sleep.For(ctx, d)
	})
	return []jobs.Registration{handler}, func(job string) int {
		mu.Lock()
		defer mu.Unlock()
		return calls[job]
	}
}

// until reports whether a time is in the future.
func until(t time.Time) func() bool { return func() bool { return time.Now().Before(t) } }

func TestNextAdoptionReturnsRunsOfALostReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		handlers, calls := counting(time.Second)
		o := c.options("a", handlers, job(t, "job", 24*time.Hour, "orders"))
		o.Store = &adopting{Store: c.store, lost: until(time.Now().Add(10 * time.Second))}
		stop := c.start(o)
		time.Sleep(5 * time.Second)
		if _, err := c.store.Trigger(t.Context(), byHand,
			storage.TriggerRequest{Job: "job", Key: "key"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if got := c.outcomes("job"); !slices.Equal(got, []string{"succeeded"}) ||
			calls("job") != 1 {
			t.Errorf("got %v by %d calls", got, calls("job"))
		}
		stop()
	})
}

func TestFiringThatStartsDuringAnAdoptionRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		handlers, calls := counting(20 * time.Second)
		long, short := once(t, "long", 10*time.Second, "orders"),
			once(t, "short", 11*time.Second, "orders")
		short.Wait = retry.Policy{Attempts: 100, Delay: time.Second}
		o := c.options("a", handlers, long, short)
		o.Locker = nil // so that its first start leaves a waiting run
		o.Store = &adopting{Store: c.store, before: 3500 * time.Millisecond}
		stop := c.start(o)
		time.Sleep(time.Minute)
		if got := c.outcomes("short"); !slices.Equal(got, []string{"succeeded"}) ||
			calls("short") != 1 {
			t.Errorf("got %v by %d calls", got, calls("short"))
		}
		stop()
	})
}

func TestFiringWhoseNoteIsRefusedIsAdoptedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		o := c.options("a", takes(30*time.Second), once(t, "long", 10*time.Second, "orders"),
			once(t, "short", 11*time.Second, "orders"))
		o.Locker = nil
		o.Store = &adopting{Store: c.store, refused: until(time.Now().Add(25 * time.Second))}
		stop := c.start(o)
		// its tries have ended, and the store refused to record the skip
		time.Sleep(24 * time.Second)
		if got := c.outcomes("short"); !slices.Equal(got, []string{"waiting lock_held"}) {
			t.Errorf("meanwhile: %v", got)
		}
		time.Sleep(36 * time.Second)
		if got := c.outcomes("short"); !slices.Equal(got, []string{"skipped lock_held"}) {
			t.Errorf("afterwards: %v", got)
		}
		stop()
	})
}

func TestTriggerDoesNotStarveBehindScheduledTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		handlers, calls := counting(900 * time.Millisecond)
		table := []jobs.Job{job(t, "extra", 24*time.Hour)}
		for _, name := range []string{"one", "two", "three"} {
			j := job(t, name, time.Second)
			j.Misfire = jobs.MisfireSkip
			table = append(table, j)
		}
		o := c.options("a", handlers, table...)
		o.Workers = 1
		stop := c.start(o)
		time.Sleep(20 * time.Second) // by now more firings wait than the workers can run
		for n := range 2 {
			if _, err := c.store.Trigger(t.Context(), byHand,
				storage.TriggerRequest{Job: "extra", Key: fmt.Sprint(n)}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if calls("extra") != n+1 {
				t.Errorf("%d triggered runs have run %d times: %v", n+1, calls("extra"),
					c.outcomes("extra"))
			}
		}
		stop()
	})
}

func TestBusyReplicaAdoptsOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		j := job(t, "job", 24*time.Hour)
		j.Overlap = jobs.OverlapAllow
		busy, idle := &adopting{Store: c.store}, &adopting{Store: c.store}
		o := c.options("busy", takes(time.Hour), j, once(t, "hog", 5*time.Second),
			once(t, "hog too", 5*time.Second))
		o.Store, o.Workers, o.ShutdownGrace = busy, 2, time.Second
		stopBusy := c.start(o)
		time.Sleep(10500 * time.Millisecond) // between two of its adoptions
		busy.mu.Lock()
		busy.limits = nil
		busy.mu.Unlock()
		for i := range 6 { // the first one wakes the replica
			if _, err := c.store.Trigger(t.Context(), byHand,
				storage.TriggerRequest{Job: "job", Key: fmt.Sprint(i)}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		busy.mu.Lock()
		if !slices.Equal(busy.limits, []int{1}) {
			t.Errorf("without a free worker it adopts up to %v runs", busy.limits)
		}
		busy.mu.Unlock()
		o = c.options("idle", takes(time.Second), j)
		o.Store, o.Workers = idle, 3
		stopIdle := c.start(o)
		time.Sleep(10 * time.Second)
		ran := map[string]int{}
		for _, r := range c.runs("job") {
			ran[r.Replica+" "+string(r.State)]++
		}
		if ran["idle succeeded"] != 5 || ran["busy waiting"] != 1 {
			t.Errorf("got %v", ran)
		}
		idle.mu.Lock()
		if slices.Max(idle.limits) != 3 {
			t.Errorf("with three free workers it adopts up to %v runs", idle.limits)
		}
		idle.mu.Unlock()
		stopBusy()
		stopIdle()
	})
}

func TestQueuedRunOfALostSessionIsAdoptedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		store := &faultyStore{Store: c.store}
		o := c.options("a", takes(time.Minute), job(t, "job", 24*time.Hour),
			once(t, "hog", 5*time.Second))
		o.Store, o.Workers, o.ShutdownGrace = store, 1, time.Second
		stop := c.start(o)
		time.Sleep(6500 * time.Millisecond)
		if _, err := c.store.Trigger(t.Context(), byHand,
			storage.TriggerRequest{Job: "job", Key: "key"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		store.down.Store(true)
		time.Sleep(20 * time.Second)
		store.down.Store(false)
		time.Sleep(2 * time.Minute)
		if got := c.outcomes("job"); !slices.Equal(got, []string{"succeeded"}) {
			t.Errorf("got %v", got)
		}
		stop()
	})
}

func TestFiringWithoutAWorkerBlocksNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		waits := retry.Policy{Attempts: 1000, Delay: time.Second}
		holder, younger := once(t, "holder", 10*time.Second, "orders"),
			once(t, "younger", 13*time.Second, "orders")
		older, hog := once(t, "older", 11*time.Second, "orders"), once(t, "hog", 12*time.Second)
		older.Wait, younger.Wait = waits, waits
		a, b := c.options("a", takes(time.Minute), older, hog),
			c.options("b", takes(5*time.Second), holder, younger)
		a.Workers, a.Locker, b.Locker = 1, nil, nil
		stopA, stopB := c.start(a), c.start(b)
		time.Sleep(14 * time.Second) // the hog has the worker that older released
		r := c.runs("older")
		if len(r) != 1 || r[0].State != jobs.Waiting || r[0].Reason != reasons.NoWorker ||
			r[0].WaitSince.Sub(r[0].ScheduledAt) > 100*time.Millisecond {
			t.Errorf("older: %+v", r)
		}
		time.Sleep(10 * time.Second)
		if got := c.outcomes("younger"); !slices.Equal(got, []string{"succeeded"}) {
			t.Errorf("younger: %v, while older has no worker", got)
		}
		time.Sleep(2 * time.Minute)
		if got := c.outcomes("older"); !slices.Equal(got, []string{"succeeded"}) {
			t.Errorf("older: %v", got)
		}
		stopA()
		stopB()
	})
}
