package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// betweenStore calls a function between the commit of a trigger and its reply.
type betweenStore struct {
	*faultyStore
	then func(storage.Triggered) error // an error instead of the reply
}

func (b *betweenStore) Trigger(ctx context.Context, a storage.Action,
	r storage.TriggerRequest) (storage.Triggered, error) {
	answer, err := b.Store.Trigger(ctx, a, r)
	if err == nil && b.then != nil {
		err = b.then(answer)
	}
	return answer, err
}

// triggerable is a job that runs only when it is triggered.
func triggerable(t *testing.T, name string, names ...string) jobs.Job {
	t.Helper()
	return job(t, name, 24*time.Hour, names...)
}

// trigger triggers through the replica, as operations do.
func trigger(t *testing.T, replica *engine.Scheduler, r storage.TriggerRequest) storage.Triggered {
	t.Helper()
	answer, err := replica.Trigger(t.Context(), byHand, r)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// A replica with a free worker starts the run of a trigger itself, without a poll.
func TestTriggerStartsOnTheReplicaThatAcceptsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		table := []jobs.Job{triggerable(t, "manual", "orders")}
		store := &adopting{Store: c.store}
		options := c.options("a", takes(time.Second), table...)
		options.Store = store
		a, stopA := c.begin(options)
		stopB := c.start(c.options("b", takes(time.Second), table...))
		time.Sleep(10500 * time.Millisecond) // between two adoptions
		polls := store.polls()
		for i := range 3 {
			answer := trigger(t, a, storage.TriggerRequest{Job: "manual", Key: fmt.Sprint(i)})
			time.Sleep(100 * time.Millisecond)
			r, err := c.store.Run(t.Context(), answer.ID)
			if err != nil || answer.Replica != "a" || r.State != jobs.Running || r.Replica != "a" {
				t.Errorf("got %+v, %v, want it to run on a", r, err)
			}
			if n := store.polls() - polls; n > 0 {
				t.Errorf("%d adoptions before the start", n)
			}
			time.Sleep(2900 * time.Millisecond) // at the same point between adoptions
			polls = store.polls()
		}
		stopA()
		stopB()
	})
}

// A replica without a free worker leaves the run of a trigger to others.
func TestTriggerOnAFullReplicaRunsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		manual := triggerable(t, "manual")
		manual.Overlap = jobs.OverlapAllow
		options := c.options("a", takes(time.Hour), manual)
		options.Workers, options.ShutdownGrace = 2, time.Second
		a, stopA := c.begin(options)
		b := c.options("b", takes(time.Hour), manual)
		b.ShutdownGrace = time.Second
		stopB := c.start(b)
		time.Sleep(10500 * time.Millisecond)
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				trigger(t, a, storage.TriggerRequest{Job: "manual", Key: fmt.Sprint(i)})
			})
		}
		all.Wait()
		time.Sleep(200 * time.Millisecond)
		on := map[string]int{}
		for _, r := range c.runs("manual") {
			on[string(r.State)+" on "+r.Replica]++
		}
		// a takes one run for its queue, because no adopted run is in it
		if n := on["running on b"]; on["running on a"] != 2 || n < 3 ||
			n+on["waiting on a"] != 4 {
			t.Errorf("got %v", on)
		}
		stopA()
		stopB()
	})
}

// After the commit of a trigger and before its start, the replica that accepted it is killed,
// drained or stopped, its reply is lost, or another replica adopts. The run starts once.
func TestTriggeredRunStartsOnce(t *testing.T) {
	type setup struct {
		*testing.T
		c     *cluster
		a     *engine.Scheduler
		store *betweenStore
		stop  func()
	}
	for _, test := range []struct {
		name    string
		between func(s *setup) error
		replica string        // where it runs
		within  time.Duration // of the trigger
	}{
		{"undisturbed", func(*setup) error { return nil }, "a", 100 * time.Millisecond},
		{"the reply is lost", func(*setup) error {
			return fmt.Errorf("trigger: %w", storage.ErrUnavailable)
		}, "a", 1100 * time.Millisecond},
		{"the replica is killed", func(s *setup) error {
			s.store.dead.Store(true)
			return nil
		}, "b", 20 * time.Second},
		{"the replica is drained", func(s *setup) error {
			return s.c.store.Drain(s.Context(), byHand, s.a.Session(), true)
		}, "b", 1100 * time.Millisecond},
		{"the replica is drained and has read that", func(s *setup) error {
			err := s.c.store.Drain(s.Context(), byHand, s.a.Session(), true)
			time.Sleep(time.Second)
			return err
		}, "b", 2100 * time.Millisecond},
		{"the replica stops", func(s *setup) error {
			go s.stop()
			synctest.Wait()
			return nil
		}, "b", 1100 * time.Millisecond},
		{"the job is paused", func(s *setup) error {
			_, err := s.c.store.Pause(s.Context(), byHand,
				storage.Target{Kind: storage.TargetJob, Name: "manual"})
			return err
		}, "a", 100 * time.Millisecond},
		{"another replica adopts", func(s *setup) error {
			time.Sleep(3 * time.Second)
			return nil
		}, "a", 3100 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				handlers, calls := counting(time.Second)
				table := triggerable(t, "manual", "orders")
				store := &betweenStore{faultyStore: &faultyStore{Store: c.store}}
				options := c.options("a", handlers, table)
				options.Store = store
				s := &setup{T: t, c: c, store: store}
				a, stop := c.begin(options)
				s.a, s.stop = a, sync.OnceFunc(stop)
				stopB := c.start(c.options("b", handlers, table))
				time.Sleep(10500 * time.Millisecond)
				var sent time.Time
				var run uuid.UUID
				store.then = func(answer storage.Triggered) error {
					if answer.Created {
						run, sent = answer.ID, time.Now()
						return test.between(s)
					}
					return nil
				}
				request := storage.TriggerRequest{Job: "manual", Key: "k"}
				answer, err := a.Trigger(t.Context(), byHand, request)
				if err != nil { // as a client does
					answer, err = a.Trigger(t.Context(), byHand, request)
				}
				if err != nil || answer.ID != run {
					t.Errorf("the trigger: %+v, %v, want run %s", answer, err, run)
				}
				time.Sleep(time.Minute)
				r, err := c.store.Run(t.Context(), run)
				if err != nil || r.State != jobs.Succeeded || r.Replica != test.replica ||
					r.StartedAt.Sub(sent) > test.within {
					t.Errorf("got %+v, %v, want it to run on %s within %s", r, err, test.replica,
						test.within)
				}
				if n := calls("manual"); n != 1 || len(c.runs("manual")) != 1 {
					t.Errorf("%d calls for the runs %v", n, c.outcomes("manual"))
				}
				store.dead.Store(false)
				s.stop()
				stopB()
			})
		})
	}
}

// The run of a trigger whose table is held waits for it, and starts when the table is free. A later
// trigger does not pass it.
func TestTriggeredRunsWaitForAHeldTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		long, manual := once(t, "long", 5*time.Second, "orders"), triggerable(t, "manual", "orders")
		manual.Overlap = jobs.OverlapQueue
		manual.Wait.Attempts, manual.Wait.MaxDelay = 0, time.Second
		handlers := takesBy(map[string]time.Duration{"long": 20 * time.Second})
		a, stopA := c.begin(c.options("a", handlers, long, manual))
		b, stopB := c.begin(c.options("b", handlers, long, manual))
		time.Sleep(10500 * time.Millisecond)
		var want []uuid.UUID
		for i, replica := range []*engine.Scheduler{a, b, a, b} {
			answer := trigger(t, replica, storage.TriggerRequest{Job: "manual", Key: fmt.Sprint(i)})
			if answer.WaitsFor == nil {
				t.Errorf("trigger %d waits for nothing", i)
			}
			want = append(want, answer.ID)
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(2 * time.Minute)
		runs := c.runs("manual")
		slices.SortFunc(runs, func(x, y storage.Record) int {
			return x.StartedAt.Compare(*y.StartedAt)
		})
		var got []uuid.UUID
		for _, r := range runs {
			got = append(got, r.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("started in the order %v, want %v", got, want)
		}
		stopA()
		stopB()
	})
}
