package lockingtest

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// GrantsFixture is an empty store of grants.
type GrantsFixture struct {
	// Connect returns the grants of the store, with a connection of their own.
	Connect func(t *testing.T) locking.Grants
}

// RunGrants runs the suite of locking.Grants. It calls open for each test, with the test's own t.
// open returns an empty store.
func RunGrants(t *testing.T, open func(t *testing.T) GrantsFixture, within ...Within) {
	groups := []struct {
		name  string
		tests map[string]func(*testing.T, GrantsFixture)
	}{
		{"Conflicts", conflictTests()},
		{"Claims", claimTests()},
		{"Waiting", allWaitingTests()},
		{"Sessions", sessionTests()},
		{"Races", raceTests()},
	}
	slots := make(chan struct{}, 4) // see Run; these tests mostly wait for the store
	var all sync.WaitGroup
	for _, group := range groups {
		all.Go(func() {
			t.Run(group.name, func(t *testing.T) { runGroup(t, group.tests, open, within, slots) })
		})
	}
	all.Wait()
}

const sessionTTL = 5 * time.Minute // of sessions that must not expire during a test

// grantsTest is a test of a store of grants.
type grantsTest struct {
	*testing.T
	locking.Grants

	mu       sync.Mutex
	replicas map[uuid.UUID]string // by session
}

func newGrantsTest(t *testing.T, f GrantsFixture) *grantsTest {
	return &grantsTest{T: t, Grants: f.Connect(t), replicas: map[uuid.UUID]string{}}
}

// must fails the test unless err is nil.
func (c *grantsTest) must(what string, err error) {
	c.Helper()
	if err != nil {
		c.Fatalf("%s: %v", what, err)
	}
}

// session opens a session of a replica.
func (c *grantsTest) session(replica string) uuid.UUID {
	c.Helper()
	s := locking.Session{ID: uuid.New(), Replica: replica, Version: "1", TTL: sessionTTL}
	c.must("session", c.OpenSession(c.Context(), s))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replicas[s.ID] = replica
	return s.ID
}

// expire makes a session expire by opening a session that succeeds it. Other replicas of the test
// must have other names.
func (c *grantsTest) expire(session uuid.UUID) {
	c.Helper()
	c.mu.Lock()
	replica := c.replicas[session]
	c.mu.Unlock()
	next := locking.Session{ID: uuid.New(), Replica: replica, TTL: sessionTTL, ReplaceEarlier: true}
	c.must("session that succeeds", c.OpenSession(c.Context(), next))
	c.must("its end", c.EndSession(c.Context(), next.ID))
}

// ask returns a request of a new lock.
func ask(requests ...locking.Request) locking.GrantRequest {
	normalized, err := locking.Normalize(requests)
	if err != nil {
		panic(err) // a mistake of the suite
	}
	id := uuid.New()
	owner := locking.Owner{Replica: "replica", Job: "job", Run: id.String()}
	return locking.GrantRequest{ID: id, Requests: normalized, Owner: owner, Reserve: time.Hour}
}

// waiting returns the request with Wait.
func waiting(r locking.GrantRequest) locking.GrantRequest {
	r.Wait = true
	return r
}

func (c *grantsTest) grant(session uuid.UUID,
	requests ...locking.GrantRequest) []locking.GrantResult {
	c.Helper()
	results, err := c.Grant(c.Context(), session, requests)
	if err != nil || len(results) != len(requests) {
		c.Fatalf("%d results for %d requests: %v", len(results), len(requests), err)
	}
	for i, result := range results {
		if (result.Token != 0) == (result.Blocker != nil) {
			c.Errorf("result %d is both granted and refused, or neither: %+v", i, result)
		}
	}
	return results
}

func (c *grantsTest) granted(session uuid.UUID, r locking.GrantRequest) locking.Token {
	c.Helper()
	result := c.grant(session, r)[0]
	if result.Blocker != nil {
		c.Fatalf("%v was refused by %+v", r.Requests, *result.Blocker)
	}
	return result.Token
}

// refused checks that a holder blocks r.
func (c *grantsTest) refused(session uuid.UUID, r, by locking.GrantRequest) *locking.GrantBlocker {
	c.Helper()
	return c.blocked(session, r, by, false)
}

// yields checks that a waiter blocks r.
func (c *grantsTest) yields(session uuid.UUID, r, to locking.GrantRequest) *locking.GrantBlocker {
	c.Helper()
	return c.blocked(session, r, to, true)
}

func (c *grantsTest) blocked(session uuid.UUID, r, by locking.GrantRequest,
	waits bool) *locking.GrantBlocker {
	c.Helper()
	result := c.grant(session, r)[0]
	b := result.Blocker
	if b == nil {
		c.Fatalf("%v was granted, want it blocked by %v", r.Requests, by.Requests)
	}
	if b.ID != by.ID || b.Holder != by.Owner || b.Waiting != waits || b.Since.IsZero() {
		c.Errorf("%v was refused by %+v, want %v of lock %s, waiting: %v", r.Requests, *b,
			by.Requests, by.ID, waits)
	}
	return b
}

// release releases a claim that exists.
func (c *grantsTest) release(token locking.Token) {
	c.Helper()
	released, err := c.Release(c.Context(), []locking.Token{token})
	if err != nil || len(released) != 1 || released[0] != locking.ReleaseDone {
		c.Fatalf("release of %d: %v, %v", token, released, err)
	}
}

func (c *grantsTest) sweep() []locking.Released {
	c.Helper()
	swept, err := c.Sweep(c.Context())
	c.must("sweep", err)
	return swept
}

// resource returns the resource of a key, such as "path:a/b".
func resource(key string) locking.Resource {
	r, err := locking.ParseKey(key)
	if err != nil {
		panic(err) // a mistake of the suite
	}
	return r
}

func writes(name string) locking.Request {
	return locking.Request{Resource: resource("path:" + name), Mode: locking.Exclusive}
}

func reads(name string) locking.Request {
	return locking.Request{Resource: resource("path:" + name), Mode: locking.Shared}
}

func slot(name string, n int) locking.Request {
	return locking.Request{Resource: resource("path:" + name), Mode: locking.Slotted, Slots: n}
}
