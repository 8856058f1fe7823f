package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/race"
	"github.com/holdfast-dev/holdfast/internal/test/simstore"
	"github.com/holdfast-dev/holdfast/internal/test/simulation"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// simulated describes a simulation of a cluster.
type simulated struct {
	seed     uint64
	within   time.Duration
	settle   time.Duration // without faults, at the end
	jobs     int
	deploys  int
	replicas int
	workers  int
	often    simulation.Often
	dense    bool

	heartbeat       time.Duration
	aftermath       time.Duration // limit of the consequences of a fault
	adopt, misfires time.Duration // intervals; 0 means the default
	// ample means that there are always enough workers: without faults nothing is missed.
	ample bool
	// Faults that the oracle must find: in the store, and in the jobs of all replicas.
	plant    func(link storage.Store) storage.Store
	plantJob func(job *jobs.Job)
	// plantAdd reports whether the locks refuse an add without a reason.
	plantAdd func(key string) bool
}

// year returns a cluster of five replicas with 200 jobs for that long. A year takes a minute.
// Heartbeats, adoption and misfire checks are rarer than usual, which only delays runs.
func year(seed uint64, within time.Duration) simulated {
	return simulated{
		seed: seed, within: within, settle: 4 * 24 * time.Hour, jobs: 200,
		deploys: 2 + int(within/(60*24*time.Hour)), replicas: 5, workers: 100,
		often: often(within.Hours() / (365 * 24)), ample: true, aftermath: 12 * time.Hour,
		heartbeat: 20 * time.Minute, adopt: 30 * time.Minute, misfires: 3 * time.Hour,
	}
}

// hour returns a cluster of five replicas with 30 jobs that fire all the time, at its usual pace.
// It has a fault each minute.
func hour(seed uint64) simulated {
	return simulated{
		seed: seed, within: time.Hour, settle: time.Hour, jobs: 30, deploys: 3, replicas: 5,
		workers: 20, often: often(1), dense: true,
		ample: true, aftermath: 3 * time.Minute, heartbeat: 5 * time.Second,
	}
}

func often(n float64) simulation.Often { return simulation.Often{Faults: n, People: n} }

// The race detector makes the simulation about fifteen times slower. With it a soak simulates five
// months, without it a year.
func TestSimulatedYear(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	long := 365 * day
	if race.Enabled {
		long = 150 * day
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // saves a quarter of the time
	how := year(seedOf(t, 5), soak.Pick(3*day, long))
	if !soak.Running() { // the faults of six days within three
		how.often, how.settle = often(6.0/365), day
	}
	verify(t, how)
}

func TestSimulatedHours(t *testing.T) {
	first, n, within := seedOf(t, 7000), soak.Pick(1, 4), soak.Pick(15*time.Minute, time.Hour)
	if text := os.Getenv("HOLDFAST_SIMULATIONS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		seed := first + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			how := hour(seed)
			how.within, how.settle = within, soak.Pick(within/3, within)
			verify(t, how)
		})
	}
}

// seedOf returns HOLDFAST_SEED, which repeats a failure or tries another seed. The default is a
// constant, so that the result depends on the code and not on chance.
func seedOf(t *testing.T, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv("HOLDFAST_SEED")
	if text == "" {
		return otherwise
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return seed
}

// verify simulates a cluster and fails the test for each violation.
func verify(t *testing.T, how simulated) {
	t.Helper()
	start := time.Now()
	report := simulate(t, how)
	t.Logf("seed %d: %s, in %s", how.seed, report, time.Since(start).Round(time.Millisecond))
	for _, violation := range report.Violations {
		t.Error(violation)
	}
	if report.ScheduledTimes < 1000 || report.States[jobs.Succeeded] < report.ScheduledTimes/4 {
		t.Errorf("little happened: %s", report)
	}
	if t.Failed() {
		t.Logf("to see it again: HOLDFAST_SEED=%d go test ./internal/engine -run '%s'", how.seed,
			t.Name())
	}
}

func simulate(t *testing.T, how simulated) (report *simulation.Report) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newSimulatedCluster(t, how)
		c.run()
		report = simulation.Judge(c.evidence())
	})
	return report
}

// simulatedCluster is a cluster in a synctest bubble.
type simulatedCluster struct {
	t         *testing.T
	how       simulated
	random    *rand.Rand
	store     *simstore.Store
	ahead     time.Duration
	locks     simulatedLocks
	tables    simulation.Tables
	added     simulation.Added
	script    simulation.Script
	ledger    *simulation.Ledger
	hosts     []*simulatedHost
	processes atomic.Uint64
	people    *people
	deploy    int // the newest one that has started
	until     time.Time

	mu        sync.Mutex
	disturbed []*simulation.Interval
	hindered  []*simulation.Interval // those of disturbed in which replicas could not start firings
}

func newSimulatedCluster(t *testing.T, how simulated) *simulatedCluster {
	t.Helper()
	c := &simulatedCluster{t: t, how: how, random: rand.New(rand.NewPCG(how.seed, 3)),
		store: simstore.New()}
	// Any time of the years to come, and clocks of replicas that are days off
	// the store's.
	time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) +
		time.Duration(c.random.Int64N(int64(8*365*24*time.Hour))))
	c.ahead = time.Duration(c.random.Int64N(int64(6*24*time.Hour))) - 3*24*time.Hour
	c.store.SetAhead(c.ahead)
	var err error
	if c.tables, err = simulation.NewTables(how.seed, how.jobs, how.deploys, c.now(),
		c.now().Add(how.within), how.dense); err != nil {
		t.Fatal(err)
	}
	if c.added, err = simulation.NewAdded(how.seed, 40, c.now(), c.now().Add(how.within),
		how.dense); err != nil {
		t.Fatal(err)
	}
	for _, table := range c.tables {
		for i := range table { // dependents are polled at the interval of adoptions
			if len(table[i].Schedule.After()) > 0 {
				table[i].MisfireThreshold = max(table[i].MisfireThreshold, 2*how.adopt)
			}
		}
	}
	c.script = simulation.NewScript(how.seed, how.replicas, how.deploys, how.within, how.often,
		how.dense)
	c.locks.flush()
	c.ledger = &simulation.Ledger{Seed: how.seed, Now: c.now}
	for i := range how.replicas {
		c.hosts = append(c.hosts, newSimulatedHost(c, i))
	}
	c.people = newPeople(c)
	return c
}

// now returns the time of the store's clock.
func (c *simulatedCluster) now() time.Time { return time.Now().Add(c.ahead).UTC() }

// run runs the script, ends all faults and waits until everything has ended.
func (c *simulatedCluster) run() {
	start := time.Now()
	for _, h := range c.hosts {
		h.enqueue(h.begin)
	}
	for _, event := range c.script {
		time.Sleep(time.Until(start.Add(event.After)))
		c.happen(event)
	}
	time.Sleep(time.Until(start.Add(c.how.within)))
	for _, h := range c.hosts {
		h.deploy.Store(int64(len(c.tables) - 1))
		h.enqueue(h.renew)
	}
	for _, h := range c.hosts {
		h.wait()
	}
	c.store.SetDown(false)
	c.locks.down.Store(false)
	for _, h := range c.hosts {
		h.heal()
	}
	c.people.leave()
	c.until = c.now()
	time.Sleep(c.how.settle)
	defer c.wrong()()
	for _, h := range c.hosts {
		h.enqueue(h.stop)
		close(h.controlState)
	}
	for _, h := range c.hosts {
		<-h.closed
	}
	time.Sleep(time.Hour) // until the last abandoned handler has returned
}

// happen starts what an event describes and does not wait for it.
func (c *simulatedCluster) happen(e simulation.Event) {
	h := c.hosts[e.Replica]
	switch e.Action {
	case simulation.Die:
		h.enqueue(func() { h.die(e.For) })
	case simulation.Restart:
		h.enqueue(func() { h.restart(e.For) })
	case simulation.Partition, simulation.Cut, simulation.Blind, simulation.Rough:
		h.enqueue(func() { h.suffer(e) })
	case simulation.Outage:
		c.during(e.For, c.wrong(), func(on bool) { c.store.SetDown(on) })
	case simulation.NoLocks:
		c.during(e.For, c.wrongWithLocks(), func(on bool) { c.locks.down.Store(on) })
	case simulation.Flush:
		c.locks.flush()
	case simulation.Deploy:
		c.deploy = e.Deploy
		go c.rollOut(c.hosts, e.Deploy, e.For)
	case simulation.Retreat:
		if before := c.deploy; before+1 < len(c.tables) {
			some := c.hosts[:1+e.Replica%2]
			go func() {
				c.rollOut(some, before+1, e.For)
				c.rollOut(some, before, e.For)
			}()
		}
	default:
		table := c.tables[c.deploy]
		c.people.enqueue(func() { c.people.action(e, table) })
	}
}

// during starts a fault and calls over at its end.
func (c *simulatedCluster) during(d time.Duration, over func(), set func(on bool)) {
	set(true)
	time.AfterFunc(d, func() {
		set(false)
		over()
	})
}

// wrong records a fault that may keep replicas from starting firings. The returned function ends
// the fault, and its consequences end later.
func (c *simulatedCluster) wrong() (over func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	endDisturbed, endHindered := c.since(&c.disturbed, c.how.aftermath), c.since(&c.hindered, 0)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		endDisturbed()
		endHindered()
	}
}

// wrongWithLocks records a fault of the advisory locks alone. The store then excludes alone, and
// firings still start.
func (c *simulatedCluster) wrongWithLocks() (over func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := c.since(&c.disturbed, c.how.aftermath)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		end()
	}
}

// since adds an interval that begins now and ends that long after the call of end. The caller of
// both functions holds the lock.
func (c *simulatedCluster) since(intervals *[]*simulation.Interval,
	after time.Duration) (end func()) {
	i := &simulation.Interval{From: c.now(), To: c.now().Add(100 * 365 * 24 * time.Hour)}
	*intervals = append(*intervals, i)
	return func() { i.To = c.now().Add(after) }
}

// rollOut restarts hosts with the table, one after the other.
func (c *simulatedCluster) rollOut(hosts []*simulatedHost, deploy int, within time.Duration) {
	defer c.wrong()()
	for _, h := range hosts {
		h.deploy.Store(int64(deploy))
		h.enqueue(h.renew)
		time.Sleep(within / time.Duration(len(hosts)))
	}
}

// evidence returns the state of the cluster for the oracle.
func (c *simulatedCluster) evidence() *simulation.Evidence {
	e := &simulation.Evidence{
		Jobs: map[string]*simulation.History{}, Records: c.store.Everything(),
		Executions: c.ledger.Executions(), Pauses: c.store.AllPauses(),
		Until: c.until, Margin: 10 * time.Second, Obeyed: 3 * time.Second,
	}
	c.people.addEvidence(e)
	for _, d := range c.store.Decisions() {
		e.Decisions = append(e.Decisions, simulation.Decision(d))
	}
	for _, l := range c.store.SessionSpans() {
		liveSession := simulation.SessionSpan{Replica: l.Replica, From: l.From,
			LastHeartbeat: l.LastHeartbeat, TTL: l.TTL,
			Took: l.Took}
		if l.Ended != nil {
			liveSession.Gone = l.Ended.Add(time.Hour)
		}
		e.Sessions = append(e.Sessions, liveSession)
	}
	for _, change := range c.store.Changes() {
		name := change.Definition.Name
		h := e.Jobs[name]
		if h == nil {
			h = &simulation.History{}
			e.Jobs[name] = h
		}
		force := simulation.ActivePeriod{Job: c.job(change.Definition), At: change.At,
			Checked: change.Checked, Counted: change.Counted, Removed: change.Removed}
		h.Periods = append(h.Periods, force)
		h.Carried = c.added.Job(force.Job.Description) != nil && !change.Removed
	}
	versions, err := c.store.Versions(context.Background())
	if err != nil {
		c.t.Fatal(err)
	}
	for name, now := range versions {
		e.Jobs[name].Cursor = now.CheckedUntil
	}
	for _, job := range c.tables[len(c.tables)-1] {
		e.Jobs[job.Name].Carried = true
	}
	e.Workers = c.how.workers
	for _, i := range c.hindered {
		e.Hindered = append(e.Hindered, *i)
	}
	if c.how.ample {
		e.Disturbed = []simulation.Interval{}
		for _, i := range c.disturbed {
			e.Disturbed = append(e.Disturbed, *i)
		}
	}
	return e
}

// job returns the job of a definition.
func (c *simulatedCluster) job(d storage.Definition) jobs.Job {
	if added := c.added.Job(d.Description); added != nil {
		return *added
	}
	job, err := c.tables.Job(d.Name, d.Description)
	if err != nil {
		c.t.Fatal(err)
	}
	return job
}

// log returns the log of replicas: HOLDFAST_SIMULATION_LOG, or none.
func (c *simulatedCluster) log() zerolog.Logger {
	path := os.Getenv("HOLDFAST_SIMULATION_LOG")
	if path == "" {
		return zerolog.Nop()
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = file.Close() })
	return zerolog.New(file).With().Logger().
		Hook(zerolog.HookFunc(func(e *zerolog.Event, _ zerolog.Level, _ string) {
			e.Time("at", c.now())
		}))
}
