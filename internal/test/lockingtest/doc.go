// Package lockingtest has the conformance suites of package locking: Run for
// backends, alone and under a Locker, RunGrants for grants, and RunLocker for a
// Locker with both. Its wrappers inject faults into each of them.
package lockingtest

import (
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/locking"
)

// Fixture is one empty store, with functions to reach it.
type Fixture struct {
	// Connect returns a backend on the store, as another replica would use it.
	Connect func(t *testing.T) locking.Backend
	// Forget makes the store lose everything, as a restart does; nil if a store
	// cannot.
	Forget func(t *testing.T)
}

// Within runs a test within something, as synctest.Test does: a store in this
// process needs no real time.
type Within func(t *testing.T, test func(t *testing.T))

// Run runs the suite. open is called for each test, with the test's own t, and
// returns a store of its own. Each test runs within all that is given.
func Run(t *testing.T, open func(t *testing.T) Fixture, within ...Within) {
	groups := []struct {
		name  string
		tests map[string]func(*testing.T, Fixture)
	}{
		{"Backend", backendTests()},
		{"Locker", lockerTests()},
		{"Contention", contentionTests()},
		{"Kept", keptTests()},
		{"Replies", replyTests()},
		{"Gate", gateTests()},
		{"Memo", memoTests()},
		{"MemoFaults", memoFaultTests()},
	}
	// Not t.Parallel: it runs as many as there are processors, and these
	// mostly wait for leases.
	places := make(chan struct{}, 12)
	var all sync.WaitGroup
	for _, group := range groups {
		all.Go(func() {
			t.Run(group.name, func(t *testing.T) { runGroup(t, group.tests, open, within, places) })
		})
	}
	all.Wait()
}

// runGroup runs the tests concurrently, as many as there are slots.
func runGroup[F any](
	t *testing.T, tests map[string]func(*testing.T, F), open func(*testing.T) F, within []Within,
	places chan struct{},
) {
	var all sync.WaitGroup
	for name, test := range tests {
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			t.Run(name, func(t *testing.T) { runWithin(t, test, open, within) })
		})
	}
	all.Wait()
}

func runWithin[F any](t *testing.T, test func(*testing.T, F), open func(*testing.T) F,
	within []Within) {
	run := func(t *testing.T) { test(t, open(t)) }
	for _, w := range within {
		inner := run
		run = func(t *testing.T) { w(t, inner) }
	}
	run(t)
}
