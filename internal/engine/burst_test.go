package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

// countedReads is a backend that counts the keys which it is asked for. Each read takes a time.
type countedReads struct {
	locking.Backend
	keys  int
	down  bool
	takes time.Duration
}

func (b *countedReads) Get(ctx context.Context, keys ...string) (map[string][]byte, error) {
	b.keys += len(keys)
	if sleep.For(ctx, b.takes) != nil {
		return nil, fmt.Errorf("get: %w: %w", locking.ErrUnavailable, ctx.Err())
	}
	if b.down {
		return nil, fmt.Errorf("get: %w", locking.ErrUnavailable)
	}
	return b.Backend.Get(ctx, keys...)
}

// begunStore is a store that knows which firings have a run.
type begunStore struct {
	runs  map[storage.Firing]bool
	asked int // firings
	down  bool
}

func (s *begunStore) Begun(_ context.Context, firings []storage.Firing) ([]bool, error) {
	if s.down {
		return nil, fmt.Errorf("begun: %w", storage.ErrUnavailable)
	}
	s.asked += len(firings)
	begun := make([]bool, len(firings))
	for i, f := range firings {
		begun[i] = s.runs[f]
	}
	return begun, nil
}

// onlooker is a replica that has left firings to others.
type onlooker struct {
	*lookout
	reads *countedReads
	store *begunStore
}

// burstTest has several onlookers of one burst, by their rank for it.
type burstTest struct {
	t       *testing.T
	start   time.Time
	gates   *locking.Locker
	byRank  []onlooker
	runs    map[storage.Firing]bool // in the store
	firings []*entry
}

// newBurstTest returns a burst of n firings that start now. It needs a bubble.
func newBurstTest(t *testing.T, replicas, n int) *burstTest {
	t.Helper()
	backend := memory.New()
	m := &burstTest{t: t, start: time.Now(), gates: lockerOf(t, backend),
		byRank: make([]onlooker, replicas), runs: map[storage.Firing]bool{}}
	for i := range n {
		e := entryEvery(t, time.Minute, jobs.MisfireSkip)
		e.Name, e.MisfireThreshold = fmt.Sprint("job-", i), time.Minute
		e.quickness.first = &meanTime{}
		m.firings = append(m.firings, e)
	}
	sessions := liveSessions(replicas)
	for _, s := range sessions {
		reads, store := &countedReads{Backend: backend}, &begunStore{runs: m.runs}
		ranking := rankingOf(sessions, s.Session)
		l := newLookout(lockerOf(t, reads), store, ranking, newReady("replica", 1),
			newWorkers(100), &clusterClock{}, zerolog.Nop())
		members := ranking.at(time.Now())
		for _, p := range m.turns() {
			l.share(&p, time.Minute, members)
		}
		for _, burst := range l.gathering {
			m.byRank[burst.rank] = onlooker{l, reads, store}
		}
	}
	return m
}

func lockerOf(t *testing.T, b locking.Backend) *locking.Locker {
	t.Helper()
	locker, err := locking.New(b,
		locking.Options{Namespace: "test", Lease: time.Minute, Restore: true, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	return locker
}

// turns returns the firings as a replica plans them that has none of the lowest ranks.
func (m *burstTest) turns() (firings []planned) {
	for _, e := range m.firings {
		firings = append(firings, planned{scheduledAt: m.start, entry: e, ranked: true,
			rank: sharedRank})
	}
	return firings
}

// begin lets a replica begin the firings.
func (m *burstTest) begin(firings ...*entry) {
	m.t.Helper()
	for _, e := range firings {
		firing := storage.Firing{Job: e.Name, ScheduledAt: m.start}
		if _, err := m.gates.Gate(m.t.Context(), gateName(firing, 0), time.Minute); err != nil {
			m.t.Fatal(err)
		}
		m.runs[firing] = true
	}
}

// run lets the onlookers of some ranks look for some time.
func (m *burstTest) run(from, until int, during time.Duration) {
	m.t.Helper()
	ctx, stop := context.WithCancel(m.t.Context())
	for _, o := range m.byRank[from:until] {
		go o.run(ctx)
	}
	time.Sleep(during)
	synctest.Wait()
	stop()
	synctest.Wait()
}

// noMark is how many keys a look reads that finds neither the mark nor a progress mark.
const noMark = 1 + 2

// expect fails the test unless the onlooker of a rank has read so many keys and queued so many
// firings.
func (m *burstTest) expect(rank, keys, queued int) {
	m.t.Helper()
	o := m.byRank[rank]
	if o.reads.keys != keys || o.ready.len() != queued {
		m.t.Errorf("rank %d: got %d keys read and %d firings queued, want %d and %d", rank,
			o.reads.keys, o.ready.len(), keys, queued)
	}
}

// noteBegun lets the onlooker of a rank know that firings are begun.
func (m *burstTest) noteBegun(rank int, firings ...*entry) {
	for _, burst := range m.byRank[rank].gathering {
		for _, e := range firings {
			m.byRank[rank].noteBegun(burst, m.start, e)
		}
	}
}

// If a replica knows that all firings are begun, no replica looks at their gates, whatever the rank
// of the first one for the burst is.
func TestReplicaThatKnowsAllFiringsLeavesTheMark(t *testing.T) {
	for _, knows := range []int{0, 1, 23} {
		synctest.Test(t, func(t *testing.T) {
			m := newBurstTest(t, 24, 1000)
			m.begin(m.firings...)
			m.noteBegun(knows, m.firings...)
			m.run(0, 24, 10*time.Second)
			for rank := range m.byRank {
				if rank == knows {
					m.expect(rank, 0, 0)
				} else {
					m.expect(rank, 1, 0)
				}
			}
		})
	}
}

// A replica that learns soon that all firings are begun leaves the mark after markAfter.
func TestReplicaLeavesTheMarkInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newBurstTest(t, 24, 20)
		m.begin(m.firings...)
		var known *burst
		for _, burst := range m.byRank[23].gathering {
			known = burst
		}
		name := known.mark()
		marked := func() bool {
			names, err := m.gates.Marked(t.Context(), name)
			if err != nil {
				t.Error(err)
			}
			return names[name]
		}
		time.AfterFunc(100*time.Millisecond, func() {
			for _, e := range m.firings {
				m.byRank[23].noteBegun(known, m.start, e)
			}
		})
		time.AfterFunc(markAfter-time.Millisecond, func() {
			if marked() {
				t.Error("it has left the mark early")
			}
		})
		m.run(23, 24, markAfter)
		if !marked() {
			t.Error("it has left no mark")
		}
	})
}

// A replica that learns late that all firings are begun leaves the mark at once.
func TestReplicaThatLearnsLateLeavesTheMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newBurstTest(t, 24, 20)
		m.begin(m.firings...)
		m.noteBegun(23, m.firings[1:]...)
		m.run(4, 24, 499*time.Millisecond)
		m.expect(3, 0, 0) // it looks after 500 ms
		m.noteBegun(23, m.firings[0])
		m.run(23, 24, 0)
		m.run(3, 4, 10*time.Second)
		m.expect(3, 1, 0)
	})
}

// A replica leaves no mark of its own if it does not know of each firing that it is begun, or knows
// it of other firings. It looks at the burst as the others do.
func TestReplicaThatKnowsOtherFiringsLeavesNoMark(t *testing.T) {
	for name, known := range map[string]func(m *burstTest) []*entry{
		"one is missing": func(m *burstTest) []*entry { return m.firings[1:] },
		"one is another": func(m *burstTest) []*entry {
			e := entryEvery(m.t, time.Minute, jobs.MisfireSkip)
			e.Name = "other"
			return append([]*entry{e}, m.firings[1:]...)
		},
		"one counts twice": func(m *burstTest) []*entry {
			return append([]*entry{m.firings[1]}, m.firings[1:]...)
		},
		"one has another version": func(m *burstTest) []*entry {
			e := &entry{Job: m.firings[0].Job}
			e.activeVersion.register(7)
			return append([]*entry{e}, m.firings[1:]...)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newBurstTest(t, 24, 20)
			m.begin(m.firings[1:]...)
			m.noteBegun(23, known(m)...)
			m.run(23, 24, 249*time.Millisecond)
			if o := m.byRank[23]; o.reads.keys > 0 || o.ready.len() > 0 {
				t.Errorf("%s: got %d keys read and %d firings queued, want none yet", name,
					o.reads.keys, o.ready.len())
			}
			m.run(0, 1, 99*time.Millisecond)
			// no mark, all gates, and again the one that no replica has begun
			m.expect(0, noMark+20+1, 1)
		})
	}
}

// A firing that waits for long does not keep all firings of its burst in memory.
func TestBurstForgetsItsFirings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newBurstTest(t, 5, 20)
		m.begin(m.firings[1:]...)
		var bursts []*burst
		for _, o := range m.byRank {
			for _, burst := range o.gathering {
				bursts = append(bursts, burst)
			}
		}
		m.run(0, 5, 10*time.Second)
		for _, burst := range bursts {
			if burst.firings != nil || burst.cohorts != nil || burst.missing != nil {
				t.Errorf("rank %d: the burst has firings", burst.rank)
			}
		}
	})
}

// A small burst has no mark, and a replica that knows all its firings does not look at them.
func TestReplicaThatKnowsASmallBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newBurstTest(t, 5, burstMin-1)
		m.begin(m.firings...)
		m.noteBegun(4, m.firings...)
		m.run(0, 5, 10*time.Second)
		m.expect(3, burstMin-1, 0)
		m.expect(4, 0, 0)
	})
}

// If no replica knows that all firings are begun, one looks at all gates, and the others only at
// its mark.
func TestOneReplicaLooksAtTheGatesOfABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newBurstTest(t, 24, 1000)
		m.begin(m.firings...)
		m.run(0, 24, 10*time.Second)
		m.expect(0, noMark+1000, 0)
		for rank := 1; rank < 24; rank++ {
			m.expect(rank, 1, 0)
		}
	})
}

// If the first replicas of a burst are dead, a later one looks at all gates.
func TestBurstOfDeadReplicasIsLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newBurstTest(t, 5, 20)
		m.begin(m.firings[3:]...)
		m.run(3, 4, 999*time.Millisecond)
		// the mark after 500 and 750 ms
		m.expect(3, 2*noMark, 0)
		m.run(3, 4, time.Millisecond)
		// the mark, all gates, and again those of the firings that were not begun
		m.expect(3, 3*noMark+20+3, 3)
	})
}

// The first replica of a burst queues the firings that no replica has begun, and leaves the mark
// when they are begun too. So the others queue none of them.
func TestFirstReplicaOfABurstTakesWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newBurstTest(t, 5, 20)
		m.begin(m.firings[2:]...)
		m.run(0, 1, 299*time.Millisecond)
		m.expect(0, noMark+20+2, 2)
		m.begin(m.firings[:2]...)
		m.byRank[0].ready.takeAll()
		m.run(0, 5, 10*time.Second)
		m.expect(0, noMark+20+2+2, 0)
		for rank := 1; rank < 5; rank++ {
			m.expect(rank, 1, 0)
		}
	})
}

// Before a replica looks at a burst again, it waits 100 ms for each request that this will take. It
// asks only for the firings that were not begun at its last look.
func TestLooksAtAnOverloadedBurstAreRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 3*lookoutBatch + 1
		m := newBurstTest(t, 5, n)
		first := m.byRank[0]
		time.Sleep(sharedAfter)
		for _, burst := range first.gathering {
			for _, test := range []struct{ begun, requests int }{
				{0, 4}, {1, 3}, {lookoutBatch + 1, 2}, {2*lookoutBatch + 1, 1},
				{3 * lookoutBatch, 1}} {
				m.begin(m.firings[:test.begun]...)
				again := first.lookOnce(t.Context(), burst)
				if got, want := time.Until(again),
					time.Duration(test.requests)*lookoutAgain; got != want {
					t.Errorf("%d of %d firings are begun: the next look is after %s, want %s",
						test.begun, n, got, want)
				}
			}
		}
		// the mark, and the gates of five looks
		m.expect(0, noMark+n+n+(n-1)+2*lookoutBatch+lookoutBatch, 0)
	})
}

// A replica that has a firing which the first replica of the burst did not know does not trust its
// mark.
func TestMarkIsForTheSameFirings(t *testing.T) {
	for name, change := range map[string]func(*burst, planned){
		"one more": func(m *burst, p planned) {
			m.firings = append(m.firings, p)
			m.sum.add(p.scheduledAt, 1, p.entry.digest())
		},
		"another version": func(m *burst, p planned) {
			e := &entry{Job: m.firings[0].entry.Job}
			e.activeVersion.register(7)
			m.sum.add(p.scheduledAt, 0, e.digest()-m.firings[0].entry.digest())
			m.firings[0].entry = e
		},
		"another scheduled time": func(m *burst, p planned) {
			digest := m.firings[0].entry.digest()
			m.sum.add(p.scheduledAt, 0, -digest)
			m.firings[0].scheduledAt = p.scheduledAt.Add(time.Millisecond)
			m.sum.add(m.firings[0].scheduledAt, 0, digest)
		},
		"another one": func(m *burst, p planned) {
			m.sum.add(p.scheduledAt, 0, p.entry.digest()-m.firings[0].entry.digest())
			m.firings[0] = p
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newBurstTest(t, 5, 20)
			m.begin(m.firings...)
			e := entryEvery(t, time.Minute, jobs.MisfireSkip)
			e.Name, e.MisfireThreshold = "other", time.Minute
			for _, burst := range m.byRank[4].gathering {
				change(burst, planned{scheduledAt: m.start, entry: e, ranked: true,
					rank: sharedRank})
			}
			m.run(0, 5, 10*time.Second)
			m.expect(3, 1, 0)
			if o := m.byRank[4]; o.ready.len() != 1 {
				t.Errorf("%s: got %d firings queued, want the one that only this replica knows",
					name, o.ready.len())
			}
		})
	}
}

// Without memcached, each replica asks the store which firings have begun, and queues the others.
func TestBurstWithoutMemcached(t *testing.T) {
	for _, n := range []int{burstMin - 1, 20, 1000} {
		synctest.Test(t, func(t *testing.T) {
			m := newBurstTest(t, 5, n)
			m.begin(m.firings[3:]...)
			for _, o := range m.byRank {
				o.reads.down = true
			}
			m.run(0, 5, 10*time.Second)
			for rank, o := range m.byRank {
				if o.ready.len() != 3 {
					t.Errorf("rank %d: got %d firings of %d queued, want the 3 without a run",
						rank, o.ready.len(), n)
				}
				// The first ones look again at the three until the end of the burst.
				if most := n + 3*(1+int(burstEnd/lookoutAgain)); o.store.asked > most {
					t.Errorf("rank %d: got %d firings asked for, want at most %d", rank,
						o.store.asked, most)
				}
			}
		})
	}
}

// A replica queues no firing before it knows whether another one has begun it. Otherwise each
// replica would try the firings of the whole cluster, and the load would make the next looks fail
// too.
func TestLookWithoutAnAnswerQueuesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newBurstTest(t, 5, 20)
		m.begin(m.firings[3:]...)
		down := func(down bool) {
			for _, o := range m.byRank {
				o.reads.down, o.store.down = down, down
			}
		}
		queued := func(want int) {
			t.Helper()
			for rank, o := range m.byRank {
				if o.ready.len() != want {
					t.Errorf("rank %d: got %d firings queued, want %d", rank, o.ready.len(), want)
				}
			}
		}
		down(true)
		m.run(0, 5, 10*time.Second)
		queued(0)
		down(false)
		m.run(0, 5, 2*time.Second)
		queued(3)
	})
}

// A replica that waits long for a reply, because it or memcached has no processor, does not take
// the firings for open.
func TestSlowLookQueuesOnlyOpenFirings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newBurstTest(t, 5, 20)
		m.begin(m.firings[3:]...)
		clear(m.runs) // the store is not needed
		for _, o := range m.byRank {
			o.reads.takes = 400 * time.Millisecond
			o.store.down = true
		}
		m.run(0, 5, 10*time.Second)
		for rank, o := range m.byRank {
			if o.ready.len() != 3 {
				t.Errorf("rank %d: got %d firings queued, want 3", rank, o.ready.len())
			}
		}
	})
}

// If many firings are open, many replicas together queue no more of them than three would, and not
// all the same ones. Otherwise tries in vain would keep an overloaded cluster from its runs.
func TestManyReplicasQueueFewOpenFirings(t *testing.T) {
	for _, down := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := newBurstTest(t, 20, 1000)
			queued := map[string]int{}
			for _, o := range m.byRank {
				o.reads.down = down
				o.putShared(m.turns())
				o.look(t.Context())
				if want := 100 * sharedRank / 20; o.ready.len() != want {
					t.Errorf("down %t: got %d firings queued, want %d", down, o.ready.len(), want)
				}
				if o.reads.keys > 2*lookoutLeast || o.store.asked > 2*lookoutLeast {
					t.Errorf("down %t: got %d gates and %d runs looked at, want few", down,
						o.reads.keys, o.store.asked)
				}
				for _, p := range o.ready.takeAll() {
					queued[p.Job]++
				}
			}
			most := 0
			for _, n := range queued {
				most = max(most, n)
			}
			if most > 10 {
				t.Errorf("down %t: %d of 20 replicas have queued the same firing", down, most)
			}
		})
	}
}

// Replicas look at the firings of a small burst one by one.
func TestSmallBurstHasNoMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newBurstTest(t, 5, burstMin-1)
		m.begin(m.firings...)
		m.run(0, 5, 10*time.Second)
		for rank := range m.byRank {
			m.expect(rank, burstMin-1, 0)
		}
	})
}

// addsFail is a backend that adds no gate of some jobs.
type addsFail struct {
	locking.Backend
	failing string // in the keys
}

func (b addsFail) AddAll(ctx context.Context, items []locking.Item,
	ttl time.Duration) []locking.Added {
	added := b.Backend.AddAll(ctx, items, ttl)
	for i, item := range items {
		if strings.Contains(item.Key, b.failing) {
			added[i] = locking.Added{Err: locking.ErrUnavailable}
		}
	}
	return added
}

// A replica knows that a firing is begun if it has passed the gate, or if another one has, but not
// if memcached did not answer. Then the firing forgets its burst.
func TestTriedFiringsAreKnownToBeBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newBurstTest(t, 5, 12)
		m.begin(m.firings[3])
		o := m.byRank[4]
		locks := advisoryLocks{lookout: o.lookout, clockLimit: &clockLimit{clock: o.clock},
			locker: lockerOf(t, addsFail{o.reads.Backend, "job-1"}), // 1, 10 and 11
			held:   newHeldLocks(nil, newHandover(), defaultIntervals(), zerolog.Nop())}
		var all []*firing
		for _, burst := range o.gathering {
			for _, p := range burst.firings {
				p.burst = burst
				f := &firing{pending: p.pending(time.Now()), session: &liveSession{}}
				all = append(all, f)
			}
		}
		var known firingSum
		locks.tryTogether(t.Context(), all, func(*firing) {})
		for _, f := range all {
			if !strings.HasPrefix(f.Job, "job-1") {
				known.add(f.ScheduledAt, 1, f.entry.digest())
			}
			if gone := f.Job == "job-3"; f.first.gone != gone || f.burst != nil {
				t.Errorf("%s: got %t for whether another replica has begun it, want %t; burst %v",
					f.Job, f.first.gone, gone, f.burst)
			}
		}
		for _, burst := range o.gathering {
			if burst.begun != known || known.number != 9 {
				t.Errorf("got %+v, want %+v", burst.begun, known)
			}
		}
	})
}
