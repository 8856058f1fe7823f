package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// skewed simulates a replica whose clock is wrong: to that replica, the store's clock is off.
type skewed struct {
	storage.Store
	ahead atomic.Int64 // nanoseconds by which the store's clock is ahead
}

func (s *skewed) Heartbeat(ctx context.Context, session uuid.UUID,
	v storage.ReplicaStatus) (storage.HeartbeatReply, error) {
	reply, err := s.Store.Heartbeat(ctx, session, v)
	reply.Now = reply.Now.Add(time.Duration(s.ahead.Load()))
	return reply, err
}

// The clock of one of two replicas is off for a minute. The other replica fires every job
// meanwhile.
func TestReplicaWithAWrongClockStartsNothing(t *testing.T) {
	t.Run("ahead", func(t *testing.T) {
		whileClockIsOff(t, -time.Minute, -60_000, "its clock is 1m0s ahead of")
	})
	t.Run("behind", func(t *testing.T) {
		whileClockIsOff(t, 12*time.Second, 12_000, "its clock is 12s behind")
	})
}

func whileClockIsOff(t *testing.T, ahead time.Duration, shown int64, words string) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		table := []jobs.Job{job(t, "job", time.Second), once(t, "by-hand", 100*time.Hour)}
		right := c.options("right", takes(time.Millisecond), table...)
		// Either replica may win a firing that both know. Only the replica with the wrong clock
		// knows "own".
		off := c.options("off", takes(time.Millisecond),
			append(slices.Clone(table), job(t, "own", time.Second))...)
		store := &skewed{Store: c.store}
		off.Store, off.MaxClockOffset, right.MaxClockOffset = store, 10*time.Second, 10*time.Second
		stopRight := c.start(right)
		// Heartbeats measure the clock, and come between scheduled times here. A firing that has
		// begun when the replica detects the error is skipped if the error persists.
		time.Sleep(500 * time.Millisecond)
		replica, stopOff := c.begin(off)
		started := func(since time.Time) map[string]int {
			byReplica := map[string]int{}
			for _, r := range slices.Concat(c.runs("job"), c.runs("own")) {
				if r.StartedAt != nil && r.StartedAt.After(since) {
					byReplica[r.Replica]++
				}
			}
			return byReplica
		}
		view := func() storage.ReplicaView {
			views, err := c.store.Replicas(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range views {
				if v.Name == "off" {
					return v
				}
			}
			t.Fatal("replica: got none in the list, want one")
			return storage.ReplicaView{}
		}
		time.Sleep(30 * time.Second)
		if got := started(time.Time{}); got["off"] == 0 || got["right"] == 0 ||
			replica.Ready(t.Context()) != nil {
			t.Errorf("started %v, ready: %v", got, replica.Ready(t.Context()))
		}
		if v := view(); v.NotReady != "" || v.ClockOffset == nil || *v.ClockOffset != 0 ||
			v.Workers != 8 {
			t.Errorf("shown: %+v", v)
		}

		store.ahead.Store(int64(ahead))
		// one heartbeat has measured the clock, and the next has reported it
		time.Sleep(10 * time.Second)
		since := time.Now()
		for range 20 { // no triggered run waits for that clock
			if _, err := c.store.Trigger(t.Context(), storage.Action{Actor: "ada", Via: "go"},
				storage.TriggerRequest{Job: "by-hand"}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
		}
		time.Sleep(10 * time.Second)
		for _, r := range c.runs("by-hand") {
			if r.State != jobs.Succeeded {
				t.Errorf("triggered while a clock was off: %s on %q", r.State, r.Replica)
			}
		}
		if got := started(since); got["off"] != 0 || got["right"] < 49 {
			t.Errorf("while its clock was off they started %v", got)
		}
		err := replica.Ready(t.Context())
		if !errors.Is(err, engine.ErrNotReady) ||
			!strings.Contains(err.Error(), words+" the store's, limit is 10s") {
			t.Errorf("ready: %v", err)
		}
		if v := view(); !strings.Contains(v.NotReady, words) || v.ClockOffset == nil ||
			*v.ClockOffset != shown {
			t.Errorf("shown: %+v", v)
		}

		store.ahead.Store(0)
		time.Sleep(10 * time.Second)
		since = time.Now()
		time.Sleep(30 * time.Second)
		if got := started(since); got["off"] == 0 || replica.Ready(t.Context()) != nil ||
			view().NotReady != "" {
			t.Errorf("once its clock was right again they started %v, ready: %v", got,
				replica.Ready(t.Context()))
		}
		stopOff()
		stopRight()
		for _, r := range c.runs("job") {
			// No replica fires "own" while the clock is off. When the clock is right again, cluster
			// time jumps back, which never happens outside this test. Scheduled times are then
			// fired early and overlap.
			if leapt := ahead > 0 && r.Reason == reasons.Overlap; r.State != jobs.Succeeded &&
				!leapt {
				t.Errorf("scheduled time %s: %s %s %s", r.ScheduledAt, r.State, r.Reason, r.Detail)
			}
		}
	})
}

func TestWaitingRunAfterTheClockWentWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		holder, waiter := once(t, "holder", 5*time.Second, "orders"),
			once(t, "waiter", 10*time.Second, "orders")
		waiter.Wait.Attempts, waiter.Wait.Delay = 1000, time.Second
		o := c.options("a", takes(20*time.Second), holder, waiter)
		store := &skewed{Store: c.store}
		o.Store, o.MaxClockOffset = store, 10*time.Second
		stop := c.start(o)
		time.Sleep(15 * time.Second)
		store.ahead.Store(int64(11 * time.Second))
		time.Sleep(45 * time.Second)
		if got := c.runs("waiter"); len(got) != 1 || got[0].State != jobs.Waiting ||
			got[0].Reason != reasons.ClockOff {
			t.Errorf("while the clock is off: %+v", got)
		}
		store.ahead.Store(0)
		time.Sleep(30 * time.Second)
		stop()
		if got := c.runs("waiter"); len(got) != 1 || got[0].State != jobs.Succeeded {
			t.Errorf("after: %+v", got)
		}
	})
}
