package engine_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/internal/test/lockingtest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// unheard is a store without notifications: replicas learn of actions only by polls, every 750 ms,
// and by heartbeats, every 5 s. The tests act 100 ms before a time without either.
type unheard struct{ storage.Store }

func (unheard) Listen(context.Context, func()) error {
	return fmt.Errorf("listen: %w", storage.ErrUnavailable)
}

// lateAdd delays adds, so that its replica never wins a gate.
type lateAdd struct{ locking.Backend }

func (l lateAdd) Add(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	time.Sleep(50 * time.Millisecond)
	return l.Backend.Add(ctx, key, value, ttl)
}

// AddAll implements locking.Backend.
func (l lateAdd) AddAll(ctx context.Context, items []locking.Item,
	ttl time.Duration) []locking.Added {
	return lockingtest.AddEach(ctx, l, items, ttl)
}

// second returns the options of a replica that is slower than the others.
func (c *cluster) second(name string, table ...jobs.Job) engine.Options {
	c.t.Helper()
	o := c.options(name, takes(0), table...)
	locker, err := locking.New(lateAdd{c.locks},
		locking.Options{Namespace: c.store.ClusterID().String(), Lease: 30 * time.Second,
			Log: zerolog.Nop()})
	if err != nil {
		c.t.Fatal(err)
	}
	o.Locker = locker
	return o
}

// promptly fails the test for each scheduled time of a job that did not start within two seconds.
func (c *cluster) promptly(job string, from time.Time, replica string) {
	c.t.Helper()
	records := c.runs(job)
	if len(records) != 1 {
		c.t.Errorf("runs: %+v", records)
		return
	}
	switch r := records[0]; {
	case r.StartedAt == nil:
		c.t.Errorf("never started: %s %s %s", r.State, r.Reason, r.Detail)
	case r.State != jobs.Succeeded || r.Replica != replica || r.StartedAt.Sub(from) > 2*time.Second:
		c.t.Errorf("run: %+v, %s after it could start", r, r.StartedAt.Sub(from))
	}
}

// A replica that is drained just before a scheduled time may win the gate. It learns of the drain
// from the store's refusal of the start.
func TestAnotherReplicaStartsFiringsOfADrainedReplica(t *testing.T) {
	for name, stops := range map[string]bool{"drained": false, "drained and stopped": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, start := newCluster(t), time.Now()
				j := once(t, "job", 11*time.Second)
				j.Misfire = jobs.MisfireSkip
				o := c.options("a", takes(0), j)
				o.Store = unheard{c.store}
				a, stop := c.begin(o)
				stopOther := c.start(c.second("b", j))
				time.Sleep(10900 * time.Millisecond)
				if err := c.store.Drain(t.Context(), byHand, a.Session(), true); err != nil {
					t.Fatal(err)
				}
				time.Sleep(200 * time.Millisecond)
				if stops {
					stop()
				}
				time.Sleep(10 * time.Second)
				c.promptly("job", start.Add(11*time.Second), "b")
				if !stops {
					stop()
				}
				stopOther()
			})
		})
	}
}

// A replica that has not yet received a pause may win the gate of a scheduled time after the pause.
// No other replica would start that firing after the resume.
func TestFiringOfAShortPauseStartsWhenItIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, start := newCluster(t), time.Now()
		j := once(t, "job", 11*time.Second)
		j.Misfire = jobs.MisfireSkip
		o := c.options("a", takes(0), j)
		o.Store = unheard{c.store}
		stop, stopOther := c.start(o), c.start(c.second("b", j))
		time.Sleep(10900 * time.Millisecond)
		resume := c.pause("ann")
		time.Sleep(10 * time.Second)
		if records := c.runs("job"); len(records) != 0 {
			t.Errorf("while paused: %+v", records)
		}
		resume()
		time.Sleep(10 * time.Second)
		c.promptly("job", start.Add(20900*time.Millisecond), "a")
		stop()
		stopOther()
	})
}

// A firing that a pause covers is not skipped because of an active run of its job, even if its
// replica does not know the pause yet. It starts after the resume.
func TestFiringOfAShortPauseIsNotSkippedBecauseOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, start := newCluster(t), time.Now()
		j := job(t, "job", 10*time.Second, "orders")
		j.Misfire = jobs.MisfireSkip
		// the first run lasts beyond the second scheduled time, which is in the pause
		runs := 0
		handlers := []jobs.Registration{jobs.Handle("work",
			func(ctx context.Context, _ *jobs.Run, _ struct{}) error {
				if runs++; runs == 1 {
					return sleep.For(ctx, 12*time.Second)
				}
				return nil
			})}
		o := c.options("a", handlers, j)
		o.Store = unheard{c.store}
		time.Sleep(300 * time.Millisecond)
		stop := c.start(o)
		time.Sleep(19600 * time.Millisecond)
		resume := c.pause("ann")
		time.Sleep(5 * time.Second)
		if records := c.runs("job"); len(records) != 1 {
			t.Errorf("while paused: %+v", records)
		}
		resume()
		time.Sleep(4 * time.Second)
		stop()
		records := c.runs("job")
		if len(records) != 2 || records[1].State != jobs.Succeeded ||
			!records[1].ScheduledAt.Equal(start.Add(20*time.Second)) {
			t.Errorf("after the resume: %+v", records)
		}
	})
}

// No replica starts a firing that was paused for longer than its threshold.
func TestFiringOfALongPauseIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		j := once(t, "job", 11*time.Second)
		j.Misfire = jobs.MisfireSkip
		o := c.options("a", takes(0), j)
		o.Store = unheard{c.store}
		stop := c.start(o)
		time.Sleep(10900 * time.Millisecond)
		resume := c.pause("ann")
		time.Sleep(61 * time.Second) // four seconds before the next check of scheduled times
		resume()
		time.Sleep(10 * time.Second)
		stop()
		if outcomes := c.outcomes("job"); len(outcomes) != 1 || outcomes[0] != "missed paused" {
			t.Errorf("outcomes: %v", outcomes)
		}
	})
}

// A replica that knows that it may not start a scheduled time leaves the gate to other replicas.
func TestDrainedReplicaAddsNoGates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		j := once(t, "job", 10*time.Second)
		a, stop := c.begin(c.options("a", takes(0), j))
		var h hearing
		o := c.second("b", j)
		o.Listeners = []jobs.Listener{h.listen}
		stopOther := c.start(o)
		time.Sleep(5 * time.Second)
		if err := c.store.Drain(t.Context(), byHand, a.Session(), true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		stop()
		stopOther()
		if got, want := h.of("job"), "scheduled, started running, finished succeeded"; got != want {
			t.Errorf("the other heard %s, want %s", got, want)
		}
	})
}
