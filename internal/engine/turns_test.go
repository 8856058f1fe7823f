package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/internal/test/lockingtest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// atOnce is the longest start delay on the first replica: less than that on the second one, and
// more than two paces of batches.
const atOnce = 30 * time.Millisecond

// secondRank is the longest start delay if the first two replicas of a firing are gone.
const secondRank = 100 * time.Millisecond

// countedGates is a backend that counts the adds of gates, and the gates and marks that are read.
// If it is down, all calls fail.
type countedGates struct {
	locking.Backend
	adds, reads *atomic.Int64
	down        *atomic.Bool
}

func (b countedGates) Add(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if strings.Contains(key, ":gate:") {
		b.adds.Add(1)
	}
	if b.down.Load() {
		return fmt.Errorf("add: %w", locking.ErrUnavailable)
	}
	return b.Backend.Add(ctx, key, value, ttl)
}

// AddAll implements locking.Backend.
func (b countedGates) AddAll(ctx context.Context, items []locking.Item,
	ttl time.Duration) []locking.Added {
	return lockingtest.AddEach(ctx, b, items, ttl)
}

func (b countedGates) Get(ctx context.Context, keys ...string) (map[string][]byte, error) {
	for _, key := range keys {
		if strings.Contains(key, ":gate:") || strings.Contains(key, ":mark:") {
			b.reads.Add(1)
		}
	}
	if b.down.Load() {
		return nil, fmt.Errorf("get: %w", locking.ErrUnavailable)
	}
	return b.Backend.Get(ctx, keys...)
}

// rankedCluster is a cluster whose replicas have ranked each other.
type rankedCluster struct {
	*cluster
	gates countedGates
	stops []func()
	start time.Time // from here on all replicas are ranked
}

// newRankedCluster starts replicas with the jobs, and sessions of frozen replicas that stay alive
// until the end of the test.
func newRankedCluster(t *testing.T, replicas, frozen int, handlers []jobs.Registration,
	table ...jobs.Job) *rankedCluster {
	t.Helper()
	c := &rankedCluster{cluster: newCluster(t)}
	c.gates = countedGates{c.locks, &atomic.Int64{}, &atomic.Int64{}, &atomic.Bool{}}
	for i := range replicas {
		c.add(c.options(fmt.Sprint("replica-", i), handlers, table...))
	}
	time.Sleep(time.Second)
	for i := range frozen {
		c.freeze(fmt.Sprint("frozen-", i))
	}
	time.Sleep(10 * time.Second) // two comparisons
	c.gates.adds.Store(0)
	c.gates.reads.Store(0)
	c.start = time.Now()
	return c
}

func (c *rankedCluster) add(o engine.Options) {
	c.t.Helper()
	locker, err := locking.New(c.gates, locking.Options{Namespace: c.store.ClusterID().String(),
		Lease: 30 * time.Second, Restore: true, Log: zerolog.Nop()})
	if err != nil {
		c.t.Fatal(err)
	}
	o.Locker = locker
	c.stops = append(c.stops, c.cluster.start(o))
}

// freeze adds the session of a replica that fires nothing.
func (c *rankedCluster) freeze(name string) {
	c.t.Helper()
	views, err := c.store.Replicas(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.store.Open(c.t.Context(), storage.Session{ID: uuid.New(), Replica: name,
		Version: "test", TTL: time.Hour, Table: views[0].ConfigHash}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *rankedCluster) stop() {
	for _, stop := range c.stops {
		stop()
	}
}

// expect fails the test for each firing since the start that did not succeed, or started later
// than limit, and if there are fewer than n. It returns the replicas, and how many firings started
// late.
func (c *rankedCluster) expect(job string, n int,
	limit time.Duration) (by map[string]int, late int) {
	c.t.Helper()
	by, found := map[string]int{}, 0
	for _, r := range c.runs(job) {
		if r.ScheduledAt.Before(c.start) {
			continue
		}
		found++
		by[r.Replica]++
		if r.State != jobs.Succeeded || r.StartedAt.Sub(r.ScheduledAt) > limit {
			c.t.Errorf("got %s: %s %s, started at %s, want it started within %s", r.ScheduledAt,
				r.State, r.Detail, r.StartedAt, limit)
		} else if r.StartedAt.Sub(r.ScheduledAt) > atOnce {
			late++
		}
	}
	if found < n {
		c.t.Errorf("got %d firings of %s, want %d or more", found, job, n)
	}
	return by, late
}

// timedUpkeep is a store that notes the times of adoptions, sweeps and searches for disconnected
// sessions.
type timedUpkeep struct {
	storage.Store
	mu                          sync.Mutex
	adoptions, sweeps, searches []time.Time
	waits                       bool // each heartbeat finds a run to adopt
}

func (s *timedUpkeep) Heartbeat(ctx context.Context, session uuid.UUID,
	v storage.ReplicaStatus) (storage.HeartbeatReply, error) {
	reply, err := s.Store.Heartbeat(ctx, session, v)
	reply.Adoptable = s.waits
	return reply, err
}

func (s *timedUpkeep) Adopt(ctx context.Context, session uuid.UUID,
	a storage.Adoption) ([]storage.Record, error) {
	s.mu.Lock()
	s.adoptions = append(s.adoptions, time.Now())
	s.mu.Unlock()
	return s.Store.Adopt(ctx, session, a)
}

func (s *timedUpkeep) Sweep(ctx context.Context) (storage.Swept, error) {
	s.mu.Lock()
	s.sweeps = append(s.sweeps, time.Now())
	s.mu.Unlock()
	return s.Store.Sweep(ctx)
}

func (s *timedUpkeep) ExpireDisconnected(context.Context, uuid.UUID) (storage.Disconnected,
	error) {
	s.mu.Lock()
	s.searches = append(s.searches, time.Now())
	s.mu.Unlock()
	return storage.Disconnected{}, nil
}

// One of three replicas does the upkeep in each interval. One of twenty does it when it has its
// turn: it looks for waiting runs after ten intervals at the latest if a heartbeat has found some,
// and otherwise after twenty, as it sweeps. It goes on searching for disconnected sessions.
func TestUpkeepWaitsForItsTurn(t *testing.T) {
	// The numbers of adoptions and sweeps of one of twenty replicas are random. Their upper limits
	// are at least 7 standard deviations above the mean.
	const seconds = 600
	type times struct {
		least, most int
		longest     time.Duration // between two
	}
	for _, test := range []struct {
		replicas          int
		waits             bool
		adoptions, sweeps times
	}{
		{3, false, times{seconds - 2, seconds + 2, time.Second},
			times{seconds/3 - 2, seconds/3 + 2, 3 * time.Second}},
		{20, true, times{seconds/10 - 1, seconds / 3, 10 * time.Second},
			times{seconds/60 - 1, seconds / 8, 60 * time.Second}},
		{20, false, times{seconds/20 - 1, seconds / 3, 20 * time.Second},
			times{seconds/60 - 1, seconds / 8, 60 * time.Second}},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newRankedCluster(t, 0, 0, nil)
			store := &timedUpkeep{Store: c.store, waits: test.waits}
			o := c.options("a", takes(0), job(t, "job", time.Hour))
			o.Store = store
			c.add(o)
			time.Sleep(time.Second)
			for i := range test.replicas - 1 {
				c.freeze(fmt.Sprint("frozen-", i))
			}
			time.Sleep(10 * time.Second) // two comparisons
			from := time.Now()
			time.Sleep(seconds * time.Second)
			c.stop()
			before := func(at time.Time) bool { return at.Before(from) }
			if n := len(slices.DeleteFunc(store.searches, before)); n < seconds-1 {
				t.Errorf("%d replicas: got %d searches, want one each second", test.replicas, n)
			}
			expect := func(what string, got []time.Time, want times) {
				got = slices.DeleteFunc(got, before)
				if n := len(got); n < want.least || n > want.most {
					t.Errorf("%d replicas: got %d times a %s, want %d to %d", test.replicas, n,
						what, want.least, want.most)
				}
				last := from
				for _, at := range append(got, from.Add(seconds*time.Second)) {
					if gap := at.Sub(last); gap > want.longest+20*time.Millisecond {
						t.Errorf("%d replicas: got no %s for %s, want one within %s", test.replicas,
							what, gap, want.longest)
					}
					last = at
				}
			}
			expect("adoption", store.adoptions, test.adoptions)
			expect("sweep", store.sweeps, test.sweeps)
		})
	}
}

// Each check of a replica moves the cursors of the jobs, although others have moved them since the
// replica's last check. So a cursor is never more than two intervals behind.
func TestFewJobsAreCheckedForMisfiresInEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval, number = 5 * time.Second, 5
		var table []jobs.Job
		for i := range number {
			table = append(table, job(t, fmt.Sprint("job-", i), time.Second))
		}
		c := newRankedCluster(t, 12, 0, takes(0), table...)
		defer c.stop()
		time.Sleep(time.Minute)
		for range 180 {
			time.Sleep(time.Second)
			now := time.Now()
			versions, err := c.store.Versions(t.Context())
			if err != nil || len(versions) != number {
				t.Fatalf("got %d jobs, %v, want %d", len(versions), err, number)
			}
			for _, j := range table {
				decidable := now.Add(-j.MisfireThreshold)
				if lag := decidable.Sub(versions[j.Name].CheckedUntil); lag > 2*interval {
					t.Fatalf("%s: the cursor is %s behind, want at most %s", j.Name, lag,
						2*interval)
				}
			}
		}
	})
}

// While all replicas are alive and know how long the handler takes, only the first replica of a
// firing adds its gate, at once. The firings of a job are spread over the replicas, in each minute
// over others.
func TestOnlyTheFirstReplicaAddsTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newRankedCluster(t, 8, 0, takes(0), job(t, "job", time.Second))
		time.Sleep(10 * time.Minute) // each replica runs the job
		c.gates.adds.Store(0)
		c.start = time.Now()
		const firings = 15 * 60
		time.Sleep(firings*time.Second + 500*time.Millisecond)
		by, late := c.expect("job", firings, atOnce)
		if adds := int(c.gates.adds.Load()); len(by) < 6 || late > 0 || adds > firings+1 {
			t.Errorf("got %d adds, %d late starts, and runs by %v, want one add for each firing",
				adds, late, by)
		}
		c.stop()
	})
}

// Another replica starts the firings of frozen replicas.
func TestFiringsOfFrozenReplicasStart(t *testing.T) {
	for frozen, limit := range map[int]time.Duration{
		1: secondRank / 2, 2: secondRank,
		// a firing each second waits for at most half a second
		20: 500*time.Millisecond + atOnce,
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newRankedCluster(t, 2, frozen, takes(0), job(t, "job", time.Second))
			// not half a second, when the last firing may just be starting
			time.Sleep(60600 * time.Millisecond)
			if _, late := c.expect("job", 60, limit); late == 0 {
				t.Errorf("%d frozen replicas: got no late start, want some", frozen)
			}
			c.stop()
		})
	}
}

// newBurst returns n jobs that fire together. They share a schedule, as in a configuration.
func newBurst(t *testing.T, n int, interval time.Duration) []jobs.Job {
	t.Helper()
	table := make([]jobs.Job, n)
	for i := range table {
		table[i] = job(t, fmt.Sprint("job-", i), interval)
		table[i].Schedule = table[0].Schedule
	}
	return table
}

// The second and the third replica of a firing look at its gate. Then they know that all firings of
// the burst are begun, so all other replicas only read their mark.
func TestReadsOfGatesDoNotGrowWithTheReplicas(t *testing.T) {
	const n, times = 40, 20
	perFiring := map[int]float64{}
	for _, replicas := range []int{6, 12} {
		synctest.Test(t, func(t *testing.T) {
			table := newBurst(t, n, 10*time.Second)
			c := newRankedCluster(t, replicas, 0, takes(0), table...)
			time.Sleep(times*10*time.Second + 5*time.Second)
			for _, j := range table {
				if _, late := c.expect(j.Name, times, atOnce); late > 0 {
					t.Errorf("got %d late starts, want none", late)
				}
			}
			perFiring[replicas] = float64(c.gates.reads.Load()) / (n * times)
			c.stop()
		})
	}
	if perFiring[6] > 2.5 || perFiring[12]-perFiring[6] > 0.3 {
		t.Errorf("got %.2f reads for each firing of 6 replicas and %.2f of 12, want about 2",
			perFiring[6], perFiring[12])
	}
}

// The live replicas start the firings of a burst whose first replicas are all frozen.
func TestBurstsOfFrozenReplicasStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBurst(t, 12, 10*time.Second)
		c := newRankedCluster(t, 3, 20, takes(0), table...)
		time.Sleep(65 * time.Second)
		starts := 0
		for _, j := range table {
			// A look at the burst comes after at most 2 s, and one at all gates a second later.
			// Each look of a replica queues three firings, and the next one comes 100 ms later.
			by, _ := c.expect(j.Name, 6, 3*time.Second+3*100*time.Millisecond+atOnce)
			for _, n := range by {
				starts += n
			}
		}
		if adds := int(c.gates.adds.Load()); adds > 3*starts {
			t.Errorf("got %d adds of gates for %d firings, want at most one by each replica", adds,
				starts)
		}
		c.stop()
	})
}

// A replica whose workers are busy keeps no firing from the others.
func TestFiringsOfABusyReplicaStartElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handlers := takesBy(map[string]time.Duration{"long": 10 * time.Minute, "job": 0})
		c := newRankedCluster(t, 0, 0, nil)
		table := []jobs.Job{once(t, "long", 2*time.Second), job(t, "job", 5*time.Second)}
		for _, name := range []string{"busy", "free"} {
			o := c.options(name, handlers, table...)
			if name == "busy" {
				o.Workers = 1
			}
			c.add(o)
			time.Sleep(3 * time.Second)
		}
		if r := c.runs("long"); len(r) != 1 || r[0].Replica != "busy" {
			t.Fatalf("got %+v, want one long run on the busy replica", r)
		}
		time.Sleep(10 * time.Second)
		c.start = time.Now()
		time.Sleep(2 * time.Minute)
		if by, late := c.expect("job", 20, secondRank); by["busy"] > 0 || late == 0 {
			t.Errorf("got runs by %v, %d of them late, want all by the free replica", by, late)
		}
		c.stop()
	})
}

// Without memcached the store decides, and each firing runs once.
func TestRankedFiringsRunWithoutMemcached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newRankedCluster(t, 4, 1, takes(0), job(t, "job", time.Second))
		c.gates.down.Store(true)
		time.Sleep(60500 * time.Millisecond)
		c.expect("job", 60, secondRank)
		c.stop()
	})
}
