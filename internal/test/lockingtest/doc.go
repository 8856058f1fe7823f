// Package lockingtest contains the conformance suites of package locking. [Run] tests backends,
// alone and under a Locker. [RunGrants] tests grants. [RunLocker] tests a Locker with both.
// [Faulty] and [FaultyGrants] inject faults.
package lockingtest

import (
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/locking"
)

// Fixture is an empty store.
type Fixture struct {
	// Connect returns a backend on the store, with a connection of its own.
	Connect func(t *testing.T) locking.Backend
	// Forget makes the store lose everything, as a restart does. It is nil if the store cannot.
	Forget func(t *testing.T)
}

// Within runs a test within something, such as synctest.Test. A store in this process needs no real
// time.
type Within func(t *testing.T, test func(t *testing.T))

// Run runs the suite. It calls open for each test, with the test's own t. open returns an empty
// store. Each test runs within all functions of within.
func Run(t *testing.T, open func(t *testing.T) Fixture, within ...Within) {
	groups := []struct {
		name  string
		tests map[string]func(*testing.T, Fixture)
	}{
		{"Backend", backendTests()},
		{"Locker", lockerTests()},
		{"Contention", contentionTests()},
		{"Restore", restoreTests()},
		{"Replies", replyTests()},
		{"Gate", gateTests()},
		{"Memo", memoTests()},
		{"MemoFaults", memoFaultTests()},
	}
	// t.Parallel runs one test for each processor. These tests mostly wait for leases, so more of
	// them run at the same time.
	slots := make(chan struct{}, 12)
	var all sync.WaitGroup
	for _, group := range groups {
		all.Go(func() {
			t.Run(group.name, func(t *testing.T) { runGroup(t, group.tests, open, within, slots) })
		})
	}
	all.Wait()
}

// runGroup runs the tests concurrently, as many as there are slots.
func runGroup[F any](
	t *testing.T, tests map[string]func(*testing.T, F), open func(*testing.T) F, within []Within,
	slots chan struct{},
) {
	var all sync.WaitGroup
	for name, test := range tests {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
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
