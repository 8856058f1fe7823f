package engine

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs"
)

// subsetTest has the replicas of a cluster, each with its own subsets and its own measurements of
// the jobs.
type subsetTest struct {
	t       *testing.T
	members []*members
	subsets []*subsets
}

func newSubsetTest(t *testing.T, replicas int) *subsetTest {
	t.Helper()
	c := &subsetTest{t: t}
	sessions := liveSessions(replicas)
	for _, s := range sessions {
		c.members = append(c.members, rankingOf(sessions, s.Session).at(time.Now()))
		c.subsets = append(c.subsets, &subsets{})
	}
	return c
}

// due makes n firings due at a time, on all replicas. It returns the replicas by their ranks for
// each of the firings. Each replica has 100 workers. It has called the handlers of these jobs if
// took returns a time, and those of other jobs if others is not 0.
func (c *subsetTest) due(at time.Time, n int, took func(replica int) time.Duration,
	others time.Duration) [][sharedRank + 1][]int {
	ranks := make([][sharedRank + 1][]int, n)
	for replica, m := range c.members {
		var firstCalls meanTime
		if others > 0 {
			firstCalls.add(others)
		}
		due := make([]planned, n)
		for i := range due {
			e := &entry{quickness: quickness{first: &firstCalls}}
			if mean := took(replica); mean > 0 {
				e.quickness.calls.add(mean)
			}
			due[i] = planned{at: at, scheduledAt: at, entry: e}
		}
		s := c.subsets[replica]
		s.load(m, due, 100)
		for i := range due {
			rank := s.rank(&due[i], hashFiring(fmt.Sprint("job-", i), at))
			ranks[i][rank] = append(ranks[i][rank], replica)
		}
	}
	return ranks
}

func always(took time.Duration) func(int) time.Duration {
	return func(int) time.Duration { return took }
}

// The more quick firings are due together, the more replicas share them. In time, all replicas have
// the same share. Slow firings are always shared by all.
func TestFewReplicasShareQuickFirings(t *testing.T) {
	const quick, slow = 10 * time.Microsecond, time.Second
	for _, test := range []struct {
		replicas, firings int
		took              time.Duration
		want              int // the replicas that share the firings of a time
	}{
		{12, 1, quick, 1},
		{12, 100, quick, 3},
		{12, 1200, quick, 3},
		{24, 1201, quick, 12},
		{24, 5000, quick, 24},
		{24, 1000, slow, 24},
		// one after the other, the handlers take 150 ms, 300 ms and 2 s
		{24, 100, time.Millisecond, 3},
		{24, 300, time.Millisecond, 12},
		{24, 400, 5 * time.Millisecond, 24},
		{3, 100, quick, 3},
		{2, 100, quick, 2},
		{1, 100, quick, 1},
	} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			c := newSubsetTest(t, test.replicas)
			times := 20
			if test.firings == 1 {
				times = 60 // so that most replicas have it once
			}
			shares := map[int]int{}
			for second := range times {
				sharing := map[int]bool{}
				at := time.Unix(int64(second), 0)
				for _, ranks := range c.due(at, test.firings, always(test.took), 0) {
					for rank := range min(sharedRank, test.replicas) {
						if n := len(ranks[rank]); n != 1 {
							t.Fatalf("%d replicas have rank %d for a firing, want one", n, rank)
						}
					}
					first := ranks[0][0]
					sharing[first] = true
					shares[first]++
				}
				if n := len(sharing); n != test.want {
					t.Errorf("%d replicas share the firings of a time, want %d", n, test.want)
				}
			}
			if n, least := len(shares), test.replicas*2/3; n < least {
				t.Errorf("%d of %d replicas had firings in %d seconds, want %d or more", n,
					test.replicas, times, least)
			}
		})
	}
}

// Replicas may have measured different times for all jobs, but none more than twice the time of
// another one. Each firing is then tried by one replica at once, or by a few.
func TestFiringHasAFirstReplicaAlthoughSizesDiffer(t *testing.T) {
	const replicas, firings = 24, 100
	c := newSubsetTest(t, replicas)
	for took := 200 * time.Microsecond; took < 20*time.Millisecond; took = took * 5 / 4 {
		differs := func(replica int) time.Duration {
			return took + took*time.Duration(replica)/(replicas-1)
		}
		tries := 0
		for second := range 20 {
			for job, ranks := range c.due(time.Unix(int64(second), 0), firings, differs, 0) {
				if len(ranks[0]) == 0 {
					t.Fatalf("handlers take %s or more: job %d has no replica of rank 0", took, job)
				}
				tries += len(ranks[0])
			}
		}
		if most := 2 * 20 * firings; tries > most {
			t.Errorf("handlers take %s or more: %d tries, want %d at most", took, tries, most)
		}
	}
}

// Replicas may have measured different times for a job. A firing is then tried by one replica at
// once, or by two.
func TestFiringHasAFirstReplicaAlthoughMeasurementsDiffer(t *testing.T) {
	const ms = time.Millisecond
	c := newSubsetTest(t, 12)
	either := func(a, b time.Duration) func(int) time.Duration {
		return func(replica int) time.Duration { return []time.Duration{a, b}[replica%2] }
	}
	for name, took := range map[string]func(replica int) time.Duration{
		"around the limit": func(replica int) time.Duration {
			return time.Duration(6+replica) * ms
		},
		"quick, or has not run":       either(ms, 0),
		"slow, or quick at the limit": either(time.Second, 6*ms),
		"quick, or slow at the limit": either(ms, 20*ms),
		"never called":                always(0),
	} {
		t.Run(name, func(t *testing.T) {
			for _, others := range []time.Duration{0, ms, time.Second} {
				for i := range 300 {
					first := c.due(time.Unix(int64(i), 0), 1, took, others)[0][0]
					if len(first) < 1 || len(first) > 2 {
						t.Fatalf("others took %s: replicas %v have rank 0, want one or two", others,
							first)
					}
				}
			}
		})
	}
}

// Without the others, a replica tries all firings at once.
func TestSubsetOfAnUnknownClusterIsUnranked(t *testing.T) {
	var s subsets
	due := []planned{{entry: &entry{quickness: quickness{first: &meanTime{}}}}}
	s.load(nil, due, 100)
	if rank := s.rank(&due[0], 1); rank != unranked {
		t.Errorf("got rank %d, want unranked", rank)
	}
}

// Firings count together if they are due at the same time and are not looked at again.
func TestDispatcherCountsFiringsThatAreDueTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const firings = 360 // too many for 3 replicas with 10 workers each, but not for 12
		sessions := liveSessions(20)
		first := map[uuid.UUID]int{} // by replica, how many firings it tries at once
		start := time.Now().Truncate(time.Second).Add(time.Second)
		time.Sleep(time.Until(start))
		for _, s := range sessions {
			d, _ := newTestDispatcher(t)
			d.timetable, d.pace, d.workers = timetable{}, newPaces(false).dispatch, newWorkers(10)
			d.ranking = rankingOf(sessions, s.Session)
			d.lookout = newLookout(nil, &begunStore{}, d.ranking, d.ready, d.workers, d.clock,
				zerolog.Nop())
			for i := range firings {
				e := entryEvery(t, time.Minute, jobs.MisfireSkip)
				e.Name, e.quickness.first = fmt.Sprint("job-", i), &meanTime{}
				e.quickness.add(time.Microsecond)
				e.activeVersion.register(1)
				e.activeVersion.decide(start.Add(-time.Minute))
				d.timetable.plan(e, start)
				d.timetable.put(planned{at: start, scheduledAt: start.Add(-time.Second), rank: 1,
					ranked: true, entry: e})
			}
			d.tick()
			first[s.Session] = d.ready.len()
		}
		all, sharing := 0, 0
		for _, n := range first {
			if all += n; n > 0 {
				sharing++
			}
		}
		if all != firings || sharing != 12 {
			t.Errorf("%d replicas share %d firings, want 12 and %d", sharing, all, firings)
		}
	})
}
