package engine

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// subsetTest has the replicas of a cluster, each with its own subsets and its own measurements of
// the jobs.
type subsetTest struct {
	schedule schedule.Schedule
	members  []*members
	subsets  []*subsets
}

func newSubsetTest(t *testing.T, replicas int) *subsetTest {
	t.Helper()
	c := &subsetTest{schedule: entryEvery(t, time.Second, jobs.MisfireSkip).Schedule}
	sessions := liveSessions(replicas)
	for _, s := range sessions {
		c.members = append(c.members, rankingOf(sessions, s.Session).at(time.Now()))
		c.subsets = append(c.subsets, &subsets{})
	}
	return c
}

// due makes n firings due at a time, on all replicas. It returns the replicas by their ranks for
// each of the firings. A replica has called the handlers of these jobs if took returns a time, and
// those of other jobs if others is not 0.
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
			e := &entry{Job: jobs.Job{Schedule: c.schedule},
				quickness: quickness{first: &firstCalls}}
			if mean := took(replica); mean > 0 {
				e.quickness.calls.add(mean)
			}
			due[i] = planned{scheduledAt: at, entry: e}
		}
		s := c.subsets[replica]
		s.load(m, due)
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

// The more quick firings are due together, the more replicas share them. Slow firings are always
// shared by all.
func TestFewReplicasShareQuickFirings(t *testing.T) {
	const quick, slow = 10 * time.Microsecond, time.Second
	for _, test := range []struct {
		replicas, firings int
		took              time.Duration
		want              int // the replicas that share the firings of a time
	}{
		{12, 1, quick, 1},
		{12, 100, quick, 3},
		{24, 1000, quick, 3},
		{24, 3000, quick, 12},
		{24, 1000, slow, 24},
		// one after the other, these firings take 106 ms, 318 ms and 2.1 s
		{24, 100, time.Millisecond, 3},
		{24, 300, time.Millisecond, 12},
		{24, 1000, 2 * time.Millisecond, 24},
		{3, 100, quick, 3},
		{2, 100, quick, 2},
		{1, 100, quick, 1},
	} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			c := newSubsetTest(t, test.replicas)
			for period := range soak.Pick(5, 20) {
				sharing := map[int]bool{}
				at := time.Unix(0, int64(period)*int64(subsetPeriod))
				for _, ranks := range c.due(at, test.firings, always(test.took), 0) {
					for rank := range min(sharedRank, test.replicas) {
						if n := len(ranks[rank]); n != 1 {
							t.Fatalf("%d replicas have rank %d for a firing, want one", n, rank)
						}
					}
					sharing[ranks[0][0]] = true
				}
				if n := len(sharing); n != test.want {
					t.Errorf("%d replicas share the firings of a time, want %d", n, test.want)
				}
			}
		})
	}
}

// In the long run, all replicas are in the subset of as many periods.
func TestReplicasShareThePeriods(t *testing.T) {
	const periods, tolerance = 4000, 200 // the standard deviation is 27 at most
	for _, replicas := range []int{4, 12, 24, 48} {
		sessions := liveSessions(replicas)
		in, want := 0, periods*sharedRank/replicas
		for _, s := range sessions {
			members, n := rankingOf(sessions, s.Session).at(time.Now()), 0
			for period := range int64(periods) {
				if (&subset{}).choose(members, sharedRank, period) != nil {
					n++
				}
			}
			if n < want-tolerance || n > want+tolerance {
				t.Errorf("one of %d replicas is in the subset of %d of %d periods, want about %d",
					replicas, n, periods, want)
			}
			in += n
		}
		if want := periods * sharedRank; in != want {
			t.Errorf("%d replicas are in the subsets of %d periods, want %d", in, periods, want)
		}
	}
}

// The same replicas share the quick firings of a period.
func TestPeriodHasOneSubset(t *testing.T) {
	c := newSubsetTest(t, 24)
	sharing := map[int]bool{}
	begin := time.Unix(0, 0).Add(1000*subsetPeriod + subsetPeriod/2) // of a period
	for second := range int(subsetPeriod / time.Second) {
		at := begin.Add(time.Duration(second) * time.Second)
		for _, ranks := range c.due(at, 100, always(time.Microsecond), 0) {
			sharing[ranks[0][0]] = true
		}
	}
	if n := len(sharing); n != sharedRank {
		t.Errorf("%d replicas share the firings of a period, want %d", n, sharedRank)
	}
}

// inPeriod returns a whole second in a period. Each period has its own subsets.
func inPeriod(n int) time.Time {
	return time.Unix(0, 0).Add(time.Duration(n) * (subsetPeriod + time.Second))
}

// Replicas may have measured different times for all jobs, but none more than 1.5 times the time of
// another one. Each firing is then tried by one replica at once, or by two. If all replicas have
// measured the same, most firings are tried by one.
func TestFiringHasAFirstReplicaAlthoughSizesDiffer(t *testing.T) {
	const replicas, firings = 24, 100
	c := newSubsetTest(t, replicas)
	loads, tries := 0, 0
	for took := 500 * time.Microsecond; took < 8*time.Millisecond; took = took * 26 / 25 {
		for name, other := range map[string]time.Duration{"the same": took, "more": took * 3 / 2} {
			differs := func(replica int) time.Duration {
				return []time.Duration{took, other}[replica%2]
			}
			at := inPeriod(loads)
			for job, ranks := range c.due(at, firings, differs, 0) {
				n := len(ranks[0])
				if n == 0 || n > 2 {
					t.Fatalf("handlers take %s on one replica and %s on another: %d replicas have "+
						"rank 0 for job %d, want one or two", took, other, n, job)
				}
				if other == took {
					tries += n
				}
			}
			if name == "the same" {
				loads++
			}
		}
	}
	if most := loads * firings * 3 / 2; tries > most {
		t.Errorf("%d tries of %d firings, want %d at most", tries, loads*firings, most)
	}
}

// Jobs that are quick on one replica and not on another make the sizes differ no more than their
// times do.
func TestJobsNearTheLimitOfQuickJobsLeaveSizesTheSame(t *testing.T) {
	const n = 100
	c := newSubsetTest(t, 24)
	for i, times := range [][2]time.Duration{
		{15 * time.Millisecond, 22 * time.Millisecond},
		{19 * time.Millisecond, 21 * time.Millisecond},
		{8 * time.Millisecond, 12 * time.Millisecond},
		{time.Second, 1400 * time.Millisecond},
	} {
		for period := range 20 {
			at := inPeriod(100*i + period)
			c.due(at, n, func(replica int) time.Duration { return times[replica%2] }, 0)
			for job, ranks := range c.due(at, n, always(time.Millisecond), 0) {
				if len(ranks[0]) == 0 {
					t.Fatalf("beside jobs of %s, job %d has no replica of rank 0", times, job)
				}
			}
		}
	}
}

// Firings that are due one after the other in an interval count together.
func TestFiringsOfAnIntervalShareTheirSubset(t *testing.T) {
	c := newSubsetTest(t, 24)
	sharing := map[int]int{} // by replica
	for i := range 300 {
		at := time.Unix(0, int64(i)*int64(100*time.Microsecond))
		ranks := c.due(at, 1, always(time.Millisecond), 0)[0]
		if len(ranks[0]) == 0 {
			t.Fatalf("firing %d has no replica of rank 0", i)
		}
		sharing[ranks[0][0]]++
		if i == 100 && len(sharing) > 3 {
			t.Errorf("%d replicas share the first 100 firings, want 3", len(sharing))
		}
	}
	// All firings have the name of one job, so each of these times has a replica by chance.
	if len(sharing) < 8 || len(sharing) > 12 {
		t.Errorf("%d replicas share 300 firings, want about 12", len(sharing))
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
					first := c.due(inPeriod(i), 1, took, others)[0][0]
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
	s.load(nil, due)
	if rank := s.rank(&due[0], 1); rank != unranked {
		t.Errorf("got rank %d, want unranked", rank)
	}
}

// Firings count together if they are due at the same time, unless they were due before or start
// later.
func TestDispatcherCountsFiringsThatAreDueTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const firings = 100 // of 1 ms each: enough for 3 replicas, and twice as many are too many
		start := time.Now().Truncate(time.Second).Add(time.Second)
		time.Sleep(time.Until(start))
		sessions := liveSessions(20)
		all, sharing := 0, 0
		for _, s := range sessions {
			d, _ := newTestDispatcher(t)
			d.timetable, d.ranking = timetable{}, rankingOf(sessions, s.Session)
			d.lookout = newLookout(nil, &begunStore{}, d.ranking, d.ready, d.workers, d.clock,
				zerolog.Nop())
			job := entryEvery(t, time.Minute, jobs.MisfireSkip).Job
			jittered := job.Schedule.WithJitter(time.Minute)
			for _, job.Schedule = range []schedule.Schedule{job.Schedule, jittered} {
				for i := range firings {
					e := &entry{Job: job, quickness: quickness{first: &meanTime{}}}
					e.Name = fmt.Sprint("job-", i)
					e.quickness.add(time.Millisecond)
					e.activeVersion.register(1)
					e.activeVersion.decide(start.Add(-time.Minute))
					d.timetable.plan(e, start)
					d.timetable.put(planned{scheduledAt: start.Add(-time.Second),
						rank: 1, ranked: true, entry: e})
				}
			}
			d.tick()
			if n := d.ready.len(); n > 0 {
				all += n
				sharing++
			}
		}
		if all != firings || sharing != sharedRank {
			t.Errorf("%d replicas share %d firings, want %d and %d", sharing, all, sharedRank,
				firings)
		}
	})
}

// A replica whose tick is late ranks itself for a delayed firing as the others do: for the time of
// its start.
func TestLateTickRanksDelayedFiringsByTheirStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, e := newTestDispatcher(t)
		e.Schedule = entryEvery(t, time.Hour, jobs.MisfireSkip).Schedule.WithJitter(time.Second)
		at := e.Schedule.Next(time.Now())
		start := e.startOf(at)
		if !start.After(at) {
			t.Fatalf("the firing of %s is not delayed", at)
		}
		e.activeVersion.decide(at.Add(-time.Second))
		d.timetable = timetable{}
		d.timetable.plan(e, at)
		time.Sleep(time.Until(at) + 2*time.Second)
		sessions := liveSessions(4)
		d.ranking = rankingOf(sessions, sessions[0].Session)
		d.lookout = newLookout(nil, &begunStore{}, d.ranking, d.ready, d.workers, d.clock,
			zerolog.Nop())
		d.tick()
		for key := range d.lookout.gathering {
			if got := time.UnixMicro(key.start); got.Before(start) || got.Sub(start) > burstLength {
				t.Errorf("the firing starts at %s, its burst is of %s", start, got)
			}
		}
		if n := len(d.lookout.gathering); n != 1 {
			t.Errorf("got %d bursts, want one", n)
		}
	})
}
