package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// cohortTest has one replica of a cluster. Its jobs fire each second, and have either one schedule
// or a schedule each. So their firings are handled as a cohort, or one by one.
type cohortTest struct {
	*dispatcher
	jobs []*entry
}

// cohortJobs describes the jobs of a cohortTest.
type cohortJobs struct {
	n      int
	single bool          // each has a schedule of its own
	took   time.Duration // the only run of each job
	jitter time.Duration
}

// newCohortTest returns one of the replicas.
func newCohortTest(t *testing.T, sessions []storage.ReplicaView, own int,
	of cohortJobs) *cohortTest {
	t.Helper()
	d, first := newTestDispatcher(t)
	first.Schedule = first.Schedule.WithJitter(of.jitter)
	c := &cohortTest{dispatcher: d}
	firstCalls := &meanTime{}
	for i := range of.n {
		e := entryEvery(t, time.Second, jobs.MisfireSkip)
		if e.Schedule = e.Schedule.WithJitter(of.jitter); !of.single {
			e.Schedule = first.Schedule
		}
		e.Name, e.planned = fmt.Sprintf("job-%02d", i), true
		e.quickness.first = firstCalls
		e.quickness.add(cmp.Or(of.took, time.Millisecond))
		e.activeVersion.register(1)
		e.activeVersion.decide(time.Now())
		c.jobs = append(c.jobs, e)
	}
	d.timetable, d.table = timetable{}, tableOf(c.jobs...)
	d.ranking = rankingOf(sessions, sessions[own].Session)
	d.lookout = newLookout(nil, &begunStore{}, d.ranking, d.ready, d.workers, d.clock,
		zerolog.Nop())
	for _, e := range c.jobs {
		d.plan(e, time.Now())
	}
	return c
}

// state describes what the dispatcher has done with all firings so far: those it has queued, those
// it looks at itself, and its bursts.
func (c *cohortTest) state() (lines []string) {
	now := c.clock.now()
	for _, p := range c.ready.takeAll() {
		lines = append(lines, fmt.Sprint("ready ", p.entry.Name, p.ScheduledAt, p.rank))
	}
	for _, p := range c.timetable.all() {
		entries := []*entry{p.entry}
		if p.cohort != nil {
			entries = p.cohort.entries
		}
		for _, e := range entries {
			lines = append(lines, fmt.Sprint("planned ", e.Name, p.at(), p.scheduledAt, p.delayed,
				p.ranked, p.rank))
		}
	}
	for _, p := range c.suspended {
		lines = append(lines, fmt.Sprint("suspended ", p.entry.Name, p.scheduledAt))
	}
	for _, t := range c.lookout.due {
		lines = append(lines, fmt.Sprint("look ", t.entry.Name, t.scheduledAt, t.rank))
	}
	for key, m := range c.lookout.gathering {
		lines = append(lines, fmt.Sprint("burst ", key, m.rank, m.mark()))
		for _, p := range m.all(now) {
			lines = append(lines, fmt.Sprint("in burst ", p.entry.Name, p.at(), p.scheduledAt,
				p.rank))
		}
	}
	clear(c.lookout.gathering)
	c.lookout.due = nil
	slices.Sort(lines)
	return lines
}

// pauses pauses a job.
func (c *cohortTest) pauses(job string) {
	c.controlState.pauses.Store(&[]storage.Pause{
		{Target: storage.Target{Kind: storage.TargetJob, Name: job}}})
	c.revise()
}

func slow(entries ...*entry) {
	for _, e := range entries {
		for range 100 {
			e.quickness.calls.add(time.Second)
		}
	}
}

// A replica does the same with the firings of a cohort as with firings that it handles one by one.
func TestCohortIsHandledAsItsFirings(t *testing.T) {
	const n, steps = 40, 15
	replicas := soak.Pick(5, 20)
	for name, test := range map[string]struct {
		change func(c *cohortTest) // nil: nothing
		pace   time.Duration       // between ticks; 0 is a second
		jitter time.Duration
	}{
		"with jitter":        {jitter: 200 * time.Millisecond, pace: 100 * time.Millisecond},
		"quick":              {},
		"late":               {pace: 1300 * time.Millisecond},
		"later than others":  {pace: 2800 * time.Millisecond},
		"later than allowed": {pace: 40 * time.Second},
		"one is slow": {change: func(c *cohortTest) {
			slow(c.jobs[7])
			c.revise()
		}},
		"all are slow": {change: func(c *cohortTest) {
			slow(c.jobs...)
			c.revise()
		}},
		"nothing is known": {change: func(c *cohortTest) {
			for _, e := range c.jobs {
				e.quickness = quickness{first: &meanTime{}}
			}
			c.revise()
		}},
		"one is paused": {change: func(c *cohortTest) { c.pauses("job-05") }},
		"one is resumed": {change: func(c *cohortTest) {
			c.pauses("job-05")
			c.tick()
			c.controlState.pauses.Store(nil)
			c.revise()
		}},
		"drained": {change: func(c *cohortTest) {
			c.controlState.drained.Store(true)
			c.revise()
		}},
		"others fire one": {change: func(c *cohortTest) {
			c.jobs[3].activeVersion.active.Store(2)
			c.revise()
		}},
		"one is removed": {change: func(c *cohortTest) {
			c.table.remove("job-09")
			c.revise()
		}},
		"one has a short threshold": {change: func(c *cohortTest) {
			c.jobs[1].MisfireThreshold = 1500 * time.Millisecond
			c.revise()
		}},
		"all have short thresholds": {change: func(c *cohortTest) {
			for _, e := range c.jobs {
				e.MisfireThreshold = 500 * time.Millisecond
			}
			c.revise()
		}},
		"one has a deadline": {change: func(c *cohortTest) {
			c.jobs[1].Deadline = time.Second
			c.revise()
		}},
		"one has another version": {change: func(c *cohortTest) {
			c.jobs[1].activeVersion.version.Store(3)
			c.jobs[1].activeVersion.active.Store(3)
			c.revise()
		}},
		"one has been decided": {pace: 1300 * time.Millisecond, change: func(c *cohortTest) {
			c.jobs[2].activeVersion.decide(time.Now().Add(2 * time.Second))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sessions := liveSessions(replicas)
				var ofCohort, single []*cohortTest
				for own := range sessions {
					of := cohortJobs{n: n, jitter: test.jitter}
					ofCohort = append(ofCohort, newCohortTest(t, sessions, own, of))
					of.single = true
					single = append(single, newCohortTest(t, sessions, own, of))
				}
				for step := range steps {
					time.Sleep(cmp.Or(test.pace, time.Second))
					for own, c := range ofCohort {
						c.ranking = rankingOf(sessions, sessions[own].Session)
						single[own].ranking = c.ranking
						for _, c := range []*cohortTest{c, single[own]} {
							if step == 2 && test.change != nil {
								test.change(c)
							}
							c.tick()
						}
						got, want := c.state(), single[own].state()
						if !slices.Equal(got, want) {
							t.Fatalf("step %d, replica %d: got\n%s\nwant\n%s", step, own,
								strings.Join(got, "\n"), strings.Join(want, "\n"))
						}
					}
				}
			})
		})
	}
}

// A replica that is not in the subset looks at no job of a cohort, and the timetable has one item
// for all of them.
func TestReplicaLeavesACohortAsAWhole(t *testing.T) {
	const n, replicas = 40, 20
	synctest.Test(t, func(t *testing.T) {
		sessions := liveSessions(replicas)
		var all []*cohortTest
		for own := range sessions {
			c := newCohortTest(t, sessions, own, cohortJobs{n: n})
			all = append(all, c)
			if items := c.timetable.all(); len(items) != 1 || len(items[0].cohort.entries) != n {
				t.Fatalf("got %d items, want one of %d jobs", len(items), n)
			}
		}
		time.Sleep(time.Second)
		whole := 0
		for _, c := range all {
			c.tick()
			for _, m := range c.lookout.gathering {
				if len(m.cohorts) == 1 && len(m.firings) == 0 && m.sum.number == n {
					whole++
				}
			}
			for _, p := range c.timetable.all() {
				if !p.ranked && len(p.cohort.entries) != n {
					t.Errorf("got an item of %d jobs, want all", len(p.cohort.entries))
				}
			}
		}
		if want := replicas - sharedRank; whole != want {
			t.Errorf("%d replicas left the cohort as a whole, want %d", whole, want)
		}
	})
}

// The firings of a cohort count for the size of the subset, and so do the times of their handlers.
func TestCohortCountsForTheSizeOfTheSubset(t *testing.T) {
	for _, test := range []struct {
		jobs cohortJobs
		want int // the replicas that queue firings
	}{
		{cohortJobs{n: 100}, 3}, {cohortJobs{n: 200}, 12}, {cohortJobs{n: 2000}, 20},
		{cohortJobs{n: 3000, took: time.Microsecond}, 12},
	} {
		synctest.Test(t, func(t *testing.T) {
			sessions := liveSessions(20)
			var all []*cohortTest
			for own := range sessions {
				all = append(all, newCohortTest(t, sessions, own, test.jobs))
			}
			time.Sleep(time.Second)
			sharing := 0
			for _, c := range all {
				if c.tick(); c.ready.len() > 0 {
					sharing++
				}
			}
			if sharing != test.want {
				t.Errorf("%+v: %d replicas share the firings, want %d", test.jobs, sharing,
					test.want)
			}
		})
	}
}

// A replica that is not in the subset notices within 5 s that a job of a cohort has become slow.
func TestCohortWithASlowJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sessions := liveSessions(20)
		var all []*cohortTest
		for own := range sessions {
			all = append(all, newCohortTest(t, sessions, own, cohortJobs{n: 10}))
		}
		together := func() (n int) {
			for own, c := range all {
				c.ranking.update(sessions, sessions[own].Session, time.Now().Add(time.Minute))
				c.tick()
				for _, m := range c.lookout.gathering {
					n += len(m.cohorts)
				}
				clear(c.lookout.gathering)
			}
			return n
		}
		time.Sleep(time.Second)
		if n := together(); n != 17 {
			t.Errorf("%d replicas leave the cohort to others as a whole, want 17", n)
		}
		for _, c := range all {
			slow(c.jobs[3])
		}
		for range summaryTTL / time.Second {
			time.Sleep(time.Second)
			together()
		}
		time.Sleep(time.Second)
		if n := together(); n != 0 {
			t.Errorf("%d replicas leave a cohort with a slow job to others, want none", n)
		}
	})
}

// Jobs that join a cohort do not change the firings that a burst has.
func TestBurstKeepsItsPartOfACohort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sessions := liveSessions(20)
		for own := range sessions {
			c := newCohortTest(t, sessions, own, cohortJobs{n: 10})
			time.Sleep(time.Until(c.timetable.next()))
			c.tick()
			p := c.timetable.all()[0]
			if p.ranked {
				continue // the replica is in the subset
			}
			other := &entry{Job: c.jobs[0].Job}
			other.Name = "other"
			c.timetable.planCohort(c.timetable.pop().cohort, p.at())
			c.timetable.plan(other, p.at())
			if n := len(c.timetable.all()[0].cohort.entries); n != 11 {
				t.Errorf("got a cohort of %d jobs, want 11", n)
			}
			c.jobs[1].gone.Store(true)
			c.jobs[2].activeVersion.decide(time.Now())
			for _, m := range c.lookout.gathering {
				for range 2 {
					if all := m.all(time.Now()); len(all) != 8 || m.sum.number != 10 {
						t.Errorf("got %d firings of %d in the burst, want 8 of 10: one job is "+
							"gone, and the firing of another one does not count", len(all),
							m.sum.number)
					}
				}
			}
			return
		}
		t.Error("all replicas are in the subset")
	})
}

// A replica that is not in the subset leaves a cohort to the others when it looks at the burst, and
// not before. A replica that is in the subset does not rest.
func TestReplicaRestsUntilItLooksAtTheBurst(t *testing.T) {
	const n, replicas, seconds = 10, 20, 40
	synctest.Test(t, func(t *testing.T) {
		sessions := liveSessions(replicas)
		all := 0
		for own := range sessions {
			c := newCohortTest(t, sessions, own, cohortJobs{n: n})
			rests, outside := 0, 0
			for start := time.Now(); time.Since(start) < seconds*time.Second; {
				first, _ := c.timetable.firstTwo()
				rest := c.rest()
				time.Sleep(time.Until(first.at().Add(rest)))
				c.tick()
				queued := c.ready.len() > 0 || len(c.timetable.all()) > 1
				if first.cohort != nil && !queued {
					outside++
				}
				if rest == 0 {
					c.state() // forgets the burst
					continue
				}
				rests++
				due := c.lookout.dueBursts(time.Now())
				if queued || len(due) != 1 || !due[0].due.Equal(time.Now()) ||
					rest < sharedAfter {
					t.Fatalf("replica %d rested for %s: firings queued: %t, %d bursts due", own,
						rest, queued, len(due))
				}
			}
			// It does not rest when it has just left the subset and knows no cohort, or when its
			// summary has expired, every 5 s.
			if want := outside * 3 / 4; rests < want {
				t.Errorf("replica %d rested %d times of %d, want at least %d", own, rests, outside,
					want)
			}
			all += rests
		}
		if all < replicas*seconds/2 {
			t.Errorf("the replicas rested %d times in %d s", all, seconds)
		}
	})
}

// A replica does not rest if it may have to handle the firings at their time.
func TestReplicaDoesNotRest(t *testing.T) {
	other := func(c *cohortTest, after time.Duration) {
		e := entryEvery(t, time.Minute, jobs.MisfireSkip)
		c.timetable.put(planned{scheduledAt: c.timetable.next().Add(after), entry: e})
	}
	for name, test := range map[string]struct {
		change func(c *cohortTest)
		rests  bool
	}{
		"nothing":        {func(*cohortTest) {}, true},
		"a job after it": {func(c *cohortTest) { other(c, longestAfter) }, true},
		"a job soon after it": {func(c *cohortTest) {
			next := c.timetable.next()
			c.pace = 50 * time.Millisecond
			other(c, c.rest()+c.pace-time.Millisecond)
			if c.timetable.next() != next {
				panic("the other job is due before")
			}
		}, false},
		"a job later than that": {func(c *cohortTest) {
			c.pace = 50 * time.Millisecond
			other(c, c.rest()+c.pace)
		}, true},
		"the burst has a firing": {func(c *cohortTest) {
			p := planned{scheduledAt: c.timetable.next().Add(-burstLength + 1), entry: c.jobs[0]}
			c.lookout.share(&p, 500*time.Millisecond, c.ranking.at(time.Now()))
		}, false},
		"a job before it":  {func(c *cohortTest) { other(c, -time.Millisecond) }, false},
		"a job with it":    {func(c *cohortTest) { other(c, 0) }, false},
		"a job meanwhile":  {func(c *cohortTest) { other(c, sharedAfter-time.Millisecond) }, false},
		"the jobs changed": {func(c *cohortTest) { c.revise() }, false},
		"a job is slow": {func(c *cohortTest) {
			slow(c.jobs[3])
			c.revise()
			c.summarize(c.timetable.all()[0].cohort, time.Now())
		}, false},
		"a job joins": {func(c *cohortTest) {
			p := c.timetable.all()[0]
			p.cohort.entries = append(p.cohort.entries, p.cohort.entries[0])
		}, false},
		"the summary expires before": {func(c *cohortTest) {
			c.timetable.all()[0].cohort.summary.until = c.timetable.next()
		}, false},
		"the summary expires after": {func(c *cohortTest) {
			c.timetable.all()[0].cohort.summary.until = c.timetable.next().Add(1)
		}, true},
		"the live replicas are unknown": {func(c *cohortTest) {
			c.ranking.current.Store(nil)
		}, false},
		"they will be unknown": {func(c *cohortTest) {
			c.ranking.current.Load().until = time.Now().Add(time.Second + sharedAfter/2)
		}, false},
		"they are few": {func(c *cohortTest) {
			few := liveSessions(sharedRank)
			c.ranking = rankingOf(few, few[0].Session)
		}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			sessions := liveSessions(20)
			var outside, resting int
			for own := range sessions {
				c := newCohortTest(t, sessions, own, cohortJobs{n: 10})
				time.Sleep(time.Until(c.timetable.next()))
				c.tick()
				c.state() // forgets the burst
				next, second := c.timetable.firstTwo()
				if !second.IsZero() || !c.subsets.willBeOutside(c.ranking.at(time.Now()), next) {
					continue
				}
				outside++
				interval, firings := c.subsets.interval, c.subsets.firings
				if test.change(c); c.rest() > 0 {
					resting++
				}
				if c.subsets.interval != interval || c.subsets.firings != firings {
					t.Errorf("%s: rest has counted the firings", name)
				}
			}
			if outside == 0 || test.rests && resting < outside || !test.rests && resting > 0 {
				t.Errorf("%s: %d of %d replicas rest, want all: %t", name, resting, outside,
					test.rests)
			}
		})
	}
}

// A replica that rests handles the firings as soon as it knows of other live replicas.
func TestRestEndsWhenTheLiveReplicasChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sessions := liveSessions(20)
		for own := range sessions {
			c := newCohortTest(t, sessions, own, cohortJobs{n: 10})
			c.intervals = defaultIntervals()
			c.ranking.changed = make(chan struct{}, 1)
			time.Sleep(time.Until(c.timetable.next()))
			c.tick()
			if c.state(); c.rest() == 0 {
				continue // it is in the subset
			}
			at, self := c.timetable.next(), sessions[own].Session
			update := func(sessions []storage.ReplicaView) {
				c.ranking.update(sessions, self, time.Now().Add(time.Minute))
			}
			woken := make(chan time.Time, 1)
			go func() {
				c.sleep(t.Context())
				woken <- time.Now()
			}()
			time.Sleep(time.Until(at.Add(100 * time.Millisecond)))
			update(sessions) // nothing changes
			time.Sleep(100 * time.Millisecond)
			update(sessions[own : own+1])
			if got, want := <-woken, at.Add(200*time.Millisecond); !got.Equal(want) {
				t.Fatalf("replica woke at %s, want %s", got, want)
			}
			return
		}
		t.Error("no replica rests")
	})
}
