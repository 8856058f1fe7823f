package lockingtest

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// GrantsFixture is one empty store of grants, with functions to reach it.
type GrantsFixture struct {
	// Connect returns the store's grants, as another replica would use them.
	Connect func(t *testing.T) locking.Grants
}

// RunGrants runs the suite of locking.Grants. open is called for each test, with the
// test's own t, and returns an empty store.
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
	places := make(chan struct{}, 4) // see Run; these mostly ask the store
	var all sync.WaitGroup
	for _, group := range groups {
		all.Go(func() {
			t.Run(group.name, func(t *testing.T) { runGroup(t, group.tests, open, within, places) })
		})
	}
	all.Wait()
}

const sessionTTL = time.Minute // of sessions that are to live through a test

// court is a store of grants and its test.
type court struct {
	*testing.T
	locking.Grants

	mu       sync.Mutex
	replicas map[uuid.UUID]string // by session
}

func newCourt(t *testing.T, f GrantsFixture) *court {
	return &court{T: t, Grants: f.Connect(t), replicas: map[uuid.UUID]string{}}
}

// must ends the test unless err is nil.
func (c *court) must(what string, err error) {
	c.Helper()
	if err != nil {
		c.Fatalf("%s: %v", what, err)
	}
}

// session opens a session of a replica.
func (c *court) session(replica string) uuid.UUID {
	c.Helper()
	s := locking.Session{ID: uuid.New(), Replica: replica, Version: "1", TTL: sessionTTL}
	c.must("session", c.OpenSession(c.Context(), s))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replicas[s.ID] = replica
	return s.ID
}

// expire makes a session expire, as its replica does that begins anew. The
// others of the test must have other names.
func (c *court) expire(session uuid.UUID) {
	c.Helper()
	c.mu.Lock()
	replica := c.replicas[session]
	c.mu.Unlock()
	next := locking.Session{ID: uuid.New(), Replica: replica, TTL: sessionTTL, Succeeds: true}
	c.must("session that succeeds", c.OpenSession(c.Context(), next))
	c.must("its end", c.EndSession(c.Context(), next.ID))
}

// ask returns a request of a new lock.
func ask(requests ...locking.Request) locking.GrantRequest {
	normalized, err := locking.Normalize(requests)
	if err != nil {
		panic(err) // a mistake in the suite
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

func (c *court) grant(session uuid.UUID, requests ...locking.GrantRequest) []locking.GrantResult {
	c.Helper()
	results, err := c.Grant(c.Context(), session, requests)
	if err != nil || len(results) != len(requests) {
		c.Fatalf("%d results for %d requests: %v", len(results), len(requests), err)
	}
	for i, result := range results {
		if (result.Token != 0) == (result.Blocker != nil) {
			c.Errorf("result %d is neither granted nor refused, or both: %+v", i, result)
		}
	}
	return results
}

func (c *court) granted(session uuid.UUID, r locking.GrantRequest) locking.Token {
	c.Helper()
	result := c.grant(session, r)[0]
	if result.Blocker != nil {
		c.Fatalf("%v was refused by %+v", r.Requests, *result.Blocker)
	}
	return result.Token
}

// refused checks that a holder blocks r.
func (c *court) refused(session uuid.UUID, r, by locking.GrantRequest) *locking.GrantBlocker {
	c.Helper()
	return c.blocked(session, r, by, false)
}

// yields checks that a waiter blocks r.
func (c *court) yields(session uuid.UUID, r, to locking.GrantRequest) *locking.GrantBlocker {
	c.Helper()
	return c.blocked(session, r, to, true)
}

func (c *court) blocked(session uuid.UUID, r, by locking.GrantRequest,
	waits bool) *locking.GrantBlocker {
	c.Helper()
	result := c.grant(session, r)[0]
	b := result.Blocker
	if b == nil {
		c.Fatalf("%v was granted, expected %v in its way", r.Requests, by.Requests)
	}
	if b.ID != by.ID || b.Holder != by.Owner || b.Waiting != waits || b.Since.IsZero() {
		c.Errorf("%v was refused by %+v, expected %v of lock %s, waiting: %v", r.Requests, *b,
			by.Requests, by.ID, waits)
	}
	return b
}

// release releases a claim that exists.
func (c *court) release(token locking.Token) {
	c.Helper()
	stood, err := c.Release(c.Context(), []locking.Token{token})
	if err != nil || len(stood) != 1 || !stood[0] {
		c.Fatalf("release of %d: %v, %v", token, stood, err)
	}
}

func (c *court) sweep() []locking.Released {
	c.Helper()
	swept, err := c.Sweep(c.Context())
	c.must("sweep", err)
	return swept
}

// resource returns the resource of a key, such as "path:a/b".
func resource(key string) locking.Resource {
	r, err := locking.ParseKey(key)
	if err != nil {
		panic(err) // a mistake in the suite
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
