package engine

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

// lateRank is the rank for the burst of the replica that works off its firings.
const lateRank = 4

// newLateBurst returns a burst of quick firings that all wait in the queue of one replica. All
// other replicas have left them to it together. They do so for a quarter of the misfire threshold.
func newLateBurst(t *testing.T, replicas, n int, threshold time.Duration) *burstTest {
	t.Helper()
	m := newBurstTest(t, replicas, n)
	for _, e := range m.firings {
		e.MisfireThreshold = threshold
		e.quickness.calls.add(time.Millisecond)
	}
	for rank, o := range m.byRank {
		members := o.ranking.at(m.start)
		clear(o.gathering)
		o.tried = nil
		if rank != lateRank {
			c := &cohort{entries: m.firings}
			(&dispatcher{controlState: &controlState{}}).summarize(c, m.start)
			if !o.shareCohort(planned{scheduledAt: m.start, cohort: c}, time.Minute, members) {
				t.Fatal("the cohort belongs to no burst")
			}
			continue
		}
		for _, p := range m.turns() {
			p.rank = 0
			o.share(&p, time.Minute, members)
			o.ready.add(p, m.start)
		}
	}
	return m
}

// workOff begins the firings of the queue, one after each interval, until it is empty or ctx ends.
func (m *burstTest) workOff(ctx context.Context, interval time.Duration) {
	o := m.byRank[lateRank]
	for sleep.For(ctx, interval) == nil {
		p, ok := o.ready.pop()
		if !ok {
			return
		}
		m.begin(p.entry)
		o.noteBegun(p.burst, p.ScheduledAt, p.entry)
	}
}

// expectOthers fails the test unless each other replica has read at most so many keys, and all of
// them have queued so many firings or more.
func (m *burstTest) expectOthers(keys, queued int) {
	m.t.Helper()
	sum := 0
	for rank, o := range m.byRank {
		if rank == lateRank {
			continue
		}
		sum += o.ready.len()
		if o.reads.keys > keys {
			m.t.Errorf("rank %d: got %d keys read, want at most %d", rank, o.reads.keys, keys)
		}
	}
	if sum < queued || queued == 0 && sum > 0 {
		m.t.Errorf("other replicas queued %d firings, want %d or more (0: none)", sum, queued)
	}
}

// While a replica works off its late firings, no other replica looks at their gates or tries them.
func TestLateBurstIsLeftToItsReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newLateBurst(t, 24, 1000, time.Minute)
		go m.workOff(t.Context(), 9*time.Millisecond)
		m.run(0, 24, 8900*time.Millisecond)
		m.expectOthers(noMark*18, 0) // in each of 18 looks the mark and two progress marks
		m.run(0, 24, 20*time.Second)
		m.expectOthers(noMark*18+1, 0)
		if late := m.byRank[lateRank]; late.reads.keys != 0 {
			t.Errorf("the replica has read %d keys, want none", late.reads.keys)
		}
	})
}

// When the replica gets stuck, the others look at the gates, and queue what is left.
func TestStuckReplicaLosesItsLateBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newLateBurst(t, 24, 1000, time.Minute)
		working, stuck := context.WithTimeout(t.Context(), 5*time.Second)
		defer stuck()
		go m.workOff(working, 9*time.Millisecond)
		m.run(0, 24, 5*time.Second)
		m.expectOthers(noMark*10+1, 0)
		m.run(0, 24, 3*time.Second)
		if first := m.byRank[0]; first.reads.keys < 1000 || first.ready.len() == 0 {
			t.Errorf("got %d keys read and %d firings queued, want all gates and some",
				first.reads.keys, first.ready.len())
		}
	})
}

// A replica that is too slow to begin its firings within the leave limit leaves no progress mark.
func TestSlowReplicaIsHelped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newLateBurst(t, 24, 1000, time.Minute)
		go m.workOff(t.Context(), 17*time.Millisecond)
		m.run(0, 24, 500*time.Millisecond)
		m.expectOthers(3*1000, 3)
	})
}

// A burst with many slow firings has no progress mark: free workers of other replicas help then.
func TestSlowFiringsAreHelped(t *testing.T) {
	for slow, keys := range map[int]int{100: noMark * 2, 101: 3 * 1000} {
		synctest.Test(t, func(t *testing.T) {
			m := newLateBurst(t, 24, 1000, time.Minute)
			for _, burst := range m.byRank[lateRank].gathering {
				burst.slow = slow
			}
			go m.workOff(t.Context(), 9*time.Millisecond)
			m.run(0, 24, time.Second)
			m.expectOthers(keys, max(0, slow-100))
		})
	}
}

// Nobody waits beyond a leave limit.
func TestShortLeaveLimitEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newLateBurst(t, 24, 1000, 2*time.Second)
		working, stuck := context.WithTimeout(t.Context(), 400*time.Millisecond)
		defer stuck()
		go m.workOff(working, 450*time.Microsecond) // it would need 450 of 500 ms
		m.run(0, 24, 499*time.Millisecond)
		m.expectOthers(noMark, 0)
		m.run(0, 3, 101*time.Millisecond)
		m.expectOthers(2*noMark+1000+200, 1)
	})
}

// A replica that is late to take firings from its timetable has one burst for those that it takes
// together.
func TestLateFiringsAreSharedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newLateBurst(t, 24, 20, time.Minute)
		o := m.byRank[lateRank]
		clear(o.gathering)
		o.tried = nil
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go o.run(ctx)
		time.Sleep(time.Second)
		for _, p := range m.turns() {
			p.rank = 0
			o.share(&p, time.Minute, o.ranking.at(m.start))
			time.Sleep(5 * time.Millisecond)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		if len(o.tried) != 1 || o.tried[0].tries != 20 {
			t.Errorf("got %d bursts, want one with all firings", len(o.tried))
		}
	})
}

// Nobody waits for longer than longestProgress, although firings begin and the leave limit is long.
func TestLateBurstHasAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newLateBurst(t, 24, 1000, time.Hour)
		late := m.byRank[lateRank]
		if _, ok := late.ready.pop(); !ok { // a firing that gets no further
			t.Fatal("the queue is empty")
		}
		go m.workOff(t.Context(), 9*time.Millisecond)
		go func() {
			for sleep.For(t.Context(), 100*time.Millisecond) == nil {
				late.mu.Lock()
				late.countProgress(&burst{})
				late.mu.Unlock()
			}
		}()
		m.run(0, 24, 14900*time.Millisecond)
		m.expectOthers(noMark*30+1, 0)
		m.run(0, 24, 3*time.Second)
		m.expectOthers(noMark*30+1000+1000, 1)
	})
}

// A firing that is begun is progress for its burst and for those behind it in the queue, but not
// for one before it, which may wait for something else.
func TestProgressOfOtherBursts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newBurstTest(t, 5, 8).byRank[4].lookout
		var bursts []*burst
		clear(l.gathering)
		for range 3 {
			time.Sleep(time.Second)
			e := entryEvery(t, time.Minute, jobs.MisfireSkip)
			e.MisfireThreshold = time.Minute
			e.quickness.calls.add(time.Millisecond)
			p := planned{scheduledAt: time.Now(), entry: e, ranked: true}
			l.share(&p, time.Minute, l.ranking.at(time.Now()))
			bursts = append(bursts, p.burst)
			l.ready.add(p, time.Now())
		}
		l.mu.Lock()
		l.countProgress(bursts[1])
		l.mu.Unlock()
		for i, want := range []bool{false, true, true} {
			if got := l.works(bursts[i], time.Now()); got != want {
				t.Errorf("burst %d: got progress %t, want %t", i, got, want)
			}
			if l.works(bursts[i], time.Now()) {
				t.Errorf("burst %d: the progress counts twice", i)
			}
		}
	})
}

// A firing that the prefilter has dropped is known to be begun.
func TestPrefilterNotesBegunFirings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := memory.New()
		d := newSieving(t, backend)
		m := newLateBurst(t, 5, 20, time.Minute)
		d.ready, d.lookout = m.byRank[lateRank].ready, m.byRank[lateRank].lookout
		first, ok := d.ready.pop()
		if !ok {
			t.Fatal("the queue is empty")
		}
		for _, e := range m.firings[:15] {
			beginElsewhere(t, backend, storage.Firing{Job: e.Name, ScheduledAt: m.start})
		}
		d.drop(t.Context(), first)
		if got := fmt.Sprint(first.burst.begun.number, d.ready.len()); got != "15 5" {
			t.Errorf("got %s firings known to be begun and queued, want 15 5", got)
		}
	})
}
