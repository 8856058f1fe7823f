package lockingtest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

// LockerFixture is an empty backend and an empty store of grants.
type LockerFixture struct {
	Fixture       // Connect is nil without a backend
	GrantsFixture // the grants
}

// RunLocker runs the suite of a Locker with Grants. It calls open for each test, with the test's
// own t. open returns empty stores. Each test runs within all functions of within.
func RunLocker(t *testing.T, open func(t *testing.T) LockerFixture, within ...Within) {
	groups := []struct {
		name  string
		tests map[string]func(*testing.T, LockerFixture)
	}{
		{"Modes", modeTests()},
		{"Turns", turnTests()},
		{"Sessions", lockSessionTests()},
		{"Faults", grantFaultTests()},
		{"BadInput", badInputTests()},
		{"ManyCallers", manyCallersTests()},
	}
	slots := make(chan struct{}, 12) // see Run
	var all sync.WaitGroup
	for _, group := range groups {
		all.Go(func() {
			t.Run(group.name, func(t *testing.T) { runGroup(t, group.tests, open, within, slots) })
		})
	}
	all.Wait()
}

const (
	memberTTL = 9 * time.Second
	atOnce    = time.Millisecond // between tries of waiters in tests
)

// cluster is the backend and the grants of a test, with the faults that the test injects.
type cluster struct {
	*testing.T
	fixture LockerFixture
	*store  // nil without a backend
	grants  locking.Grants
}

func newCluster(t *testing.T, f LockerFixture) *cluster {
	c := &cluster{T: t, fixture: f, grants: f.GrantsFixture.Connect(t)}
	if f.Fixture.Connect != nil {
		c.store = newStore(t, f.Fixture)
	}
	return c
}

// needsBackend skips the test if there is no backend.
func (c *cluster) needsBackend() {
	c.Helper()
	if c.store == nil {
		c.Skip("there is no backend")
	}
}

// member is one Locker of a cluster, with the events that it reported.
type member struct {
	*replica
	grants *FaultyGrants
	stop   func() // ends Run and waits for its end
}

// newMember returns a member that does not run yet.
func (c *cluster) newMember(name string, change ...func(*locking.Options)) *member {
	c.Helper()
	m := &member{replica: &replica{name: name},
		grants: NewFaultyGrants(c.fixture.GrantsFixture.Connect(c.T))}
	o := locking.Options{
		Grants: m.grants, Session: locking.Session{Replica: name, Version: "1", TTL: memberTTL},
		Log: zerolog.Nop(), OnEvent: m.note,
	}
	var backend locking.Backend
	if c.store != nil {
		m.faults = NewFaulty(recorded{c.store.Connect(c.T), c.keys})
		backend, o.Namespace, o.Lease = m.faults, "test", lease
	}
	for _, f := range change {
		f(&o)
	}
	locker, err := locking.New(backend, o)
	if err != nil {
		c.Fatal(err)
	}
	m.Locker = locker
	return m
}

// join returns a member that runs until the test ends, and has a session.
func (c *cluster) join(name string, change ...func(*locking.Options)) *member {
	c.Helper()
	m := c.newMember(name, change...)
	c.run(m)
	c.ready(m)
	return m
}

func (c *cluster) run(m *member) {
	c.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	m.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			c.Errorf("end of %s: %v", m.name, err)
		}
	})
	c.Cleanup(m.stop)
}

func (c *cluster) ready(m *member) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), awaitTimeout)
	defer cancel()
	if err := m.Ready(ctx); err != nil {
		c.Fatal(err)
	}
}

// kill ends a member like a process that dies. Its locks remain until its session expires, which
// kill causes at once.
func (c *cluster) kill(m *member) {
	c.Helper()
	m.grants.Always(Unavailable)
	if m.faults != nil {
		m.faults.Always(Unavailable)
	}
	m.stop()
	c.expire(m)
}

// expire makes a member's session expire.
func (c *cluster) expire(m *member) {
	c.Helper()
	next := locking.Session{ID: uuid.New(), Replica: m.name, TTL: sessionTTL, ReplaceEarlier: true}
	check(c.T, "session that succeeds", c.grants.OpenSession(c.Context(), next), nil)
	check(c.T, "its end", c.grants.EndSession(c.Context(), next.ID), nil)
}

// checkNothingLeft checks that the names have no holder, waiter or advisory lock.
func (c *cluster) checkNothingLeft(names ...string) {
	c.Helper()
	s := locking.Session{ID: uuid.New(), Replica: "auditor", TTL: sessionTTL}
	check(c.T, "session", c.grants.OpenSession(c.Context(), s), nil)
	for _, name := range names {
		results, err := c.grants.Grant(c.Context(), s.ID, []locking.GrantRequest{ask(writes(name))})
		if err != nil || results[0].Blocker != nil {
			c.Errorf("%s is not free: %+v, %v", name, results, err)
		}
	}
	check(c.T, "end", c.grants.EndSession(c.Context(), s.ID), nil)
	if c.store != nil {
		c.checkEmpty(c.T)
	}
}

// awaitFree waits until the names have no holder or waiter.
func (c *cluster) awaitFree(names ...string) {
	c.Helper()
	s := locking.Session{ID: uuid.New(), Replica: "auditor", TTL: sessionTTL}
	check(c.T, "session", c.grants.OpenSession(c.Context(), s), nil)
	for _, name := range names {
		r := ask(writes(name))
		await(c.T, name+" to be free", func() bool {
			results, err := c.grants.Grant(c.Context(), s.ID, []locking.GrantRequest{r})
			return err == nil && results[0].Token != 0
		})
	}
	check(c.T, "end", c.grants.EndSession(c.Context(), s.ID), nil)
}

func (m *member) try(t *testing.T, job string, requests ...locking.Request) (*locking.Lock, error) {
	t.Helper()
	return m.TryAcquire(t.Context(), m.owner(job), requests)
}

// gets acquires resources that must be free.
func (m *member) gets(t *testing.T, job string, requests ...locking.Request) *locking.Lock {
	t.Helper()
	lock, err := m.try(t, job, requests...)
	if err != nil {
		t.Fatalf("lock of %v for %s: %v", requests, job, err)
	}
	if lock.Token() == 0 {
		t.Errorf("lock of %v has no token", requests)
	}
	return lock
}

// isRefused checks that the requests are refused because of a lock of the job.
func (m *member) isRefused(t *testing.T, by string,
	requests ...locking.Request) *locking.HeldError {
	t.Helper()
	_, err := m.try(t, "refused", requests...)
	return checkRefused(t, err, by)
}

func checkRefused(t *testing.T, err error, by string) *locking.HeldError {
	t.Helper()
	var held *locking.HeldError
	if !errors.As(err, &held) || !errors.Is(err, locking.ErrHeld) || held.Holder.Job != by {
		t.Errorf("got %v, want it held by %s", err, by)
		return &locking.HeldError{}
	}
	return held
}

// waits acquires in the background and sends the result on the channel.
func (m *member) waits(t *testing.T, ctx context.Context, job string,
	requests ...locking.Request) <-chan outcome {
	t.Helper()
	done := make(chan outcome, 1)
	go func() {
		lock, err := m.Acquire(ctx, m.owner(job), requests,
			retry.Policy{Elapsed: 4 * awaitTimeout, Delay: atOnce})
		done <- outcome{lock, err}
	}()
	return done
}

type outcome struct {
	lock *locking.Lock
	err  error
}

// must returns the lock and fails the test on an error.
func (o outcome) must(t *testing.T) *locking.Lock {
	t.Helper()
	if o.err != nil {
		t.Fatalf("lock: %v", o.err)
	}
	return o.lock
}

func free(t *testing.T, locks ...*locking.Lock) {
	t.Helper()
	for _, lock := range locks {
		check(t, "release", lock.Release(t.Context()), nil)
	}
}

// awaitWaiters waits until n locks are queued in the grants.
func (c *cluster) awaitWaiters(m *member, n int) {
	c.Helper()
	await(c.T, "queued locks", func() bool { return len(m.queued(c.T)) == n })
}

// queued returns the queued locks of a member. It reads them with a heartbeat.
func (m *member) queued(t *testing.T) []uuid.UUID {
	t.Helper()
	heartbeat, err := m.grants.grants.Heartbeat(t.Context(), m.grants.Session())
	if err != nil {
		t.Fatalf("slots: %v", err)
	}
	return heartbeat.Waiting
}
