package lockingtest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/locking"
)

func modeTests() map[string]func(*testing.T, LockerFixture) {
	return map[string]func(*testing.T, LockerFixture){
		"Exclusion":       testLockerPairs,
		"Slots":           testLockerSlots,
		"Tokens":          testLockTokens,
		"AllOrNothing":    testGrantedAllOrNothing,
		"RefusedByGrants": testRefusedByGrantsLeavesNothing,
		"Repetitions":     testGrantedRepetitions,
		"OneAdd":          testFlatNameCostsOneAdd,
		"OnlyExclusive":   testAdvisoryLocksOfWrites,
		"Owner":           testOwnersReplica,
		"Inspect":         testInspectGranted,
	}
}

func testLockerPairs(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	a, b := c.join("replica-1"), c.join("replica-2")
	tests := []struct {
		first, second locking.Request
		free          bool
	}{
		{writes("public"), writes("public"), false},
		{writes("public"), writes("public/orders"), false},
		{writes("public"), writes("public/a/b/c/d"), false},
		{writes("public/orders"), writes("public"), false},
		{writes("public/a/b/c/d"), writes("public/a"), false},
		{writes("public/orders"), writes("public/sales"), true},
		{writes("public/orders"), writes("public/orders2"), true},
		{writes("public"), writes("publication"), true},
		{reads("public"), reads("public"), true},
		{reads("public"), reads("public/orders"), true},
		{reads("public"), writes("public/orders"), false},
		{reads("public/orders"), writes("public"), false},
		{writes("public"), reads("public/orders"), false},
		{writes("public/orders"), reads("public"), false},
		{writes("public/orders"), reads("public/orders"), false},
		{reads("public/orders"), writes("public/orders"), false},
		{slot("public", 2), slot("public", 2), true},
		{slot("public", 1), slot("public", 1), false},
		{slot("public", 2), writes("public"), false},
		{writes("public"), slot("public", 2), false},
		{slot("public", 2), reads("public/orders"), false},
	}
	for _, test := range tests {
		first := a.gets(t, "first", test.first)
		second, err := b.try(t, "second", test.second)
		if test.free {
			if err != nil {
				t.Errorf("%v beside %v: %v", test.second, test.first, err)
				continue
			}
			free(t, second)
		} else if held := checkRefused(t, err,
			"first"); held.Resource != test.first.Resource || held.Waiting || held.Holder.Replica != "replica-1" {
			t.Errorf("%v beside %v: %v", test.second, test.first, err)
		}
		free(t, first)
	}
	c.checkNothingLeft("public")
}

func testLockerSlots(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	a, b := c.join("replica-1"), c.join("replica-2")
	locks := []*locking.Lock{a.gets(t, "one", slot("api", 3)), b.gets(t, "two", slot("api", 3)),
		b.gets(t, "three", slot("api", 3))}
	for range 3 {
		if _, err := a.try(t, "four", slot("api", 3)); !errors.Is(err, locking.ErrHeld) {
			t.Errorf("a fourth of three slots: %v", err)
		}
	}
	free(t, locks[1])
	fourth := a.gets(t, "four", slot("api", 3))
	free(t, locks[0], locks[2], fourth)
	c.checkNothingLeft("api")
}

func testLockTokens(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	a, b := c.join("replica-1"), c.join("replica-2")
	var last locking.Token
	for i := range 6 {
		lock := []*member{a, b}[i%2].gets(t, "job", writes("a"))
		if lock.Token() <= last {
			t.Errorf("token %d after %d", lock.Token(), last)
		}
		last = lock.Token()
		free(t, lock)
	}
}

func testGrantedAllOrNothing(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	a, b := c.join("replica-1"), c.join("replica-2")
	blocker := b.gets(t, "blocker", writes("m"))
	held := a.isRefused(t, "blocker", writes("z"), writes("m"), reads("r"), slot("s", 1),
		writes("a"))
	const want = "path:m is held by job blocker (run run-of-blocker) on replica-2"
	if held.Error() != want {
		t.Errorf("got %q, want %q", held, want)
	}
	free(t, blocker)
	c.checkNothingLeft("z", "m", "r", "s", "a")
	lock := a.gets(t, "job", writes("z"), writes("m"), reads("r"), slot("s", 1), writes("a"))
	for _, name := range []string{"z", "m", "r", "s", "a"} {
		b.isRefused(t, "job", writes(name))
	}
	free(t, lock)
	c.checkNothingLeft("z", "m", "r", "s", "a")
}

// testRefusedByGrantsLeavesNothing uses modes without advisory locks.
func testRefusedByGrantsLeavesNothing(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	a, b := c.join("replica-1"), c.join("replica-2")
	blocker := b.gets(t, "blocker", writes("public"))
	a.isRefused(t, "blocker", writes("a"), writes("public/orders"), writes("z"))
	free(t, blocker)
	c.checkNothingLeft("a", "public", "z")
}

func testGrantedRepetitions(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	a := c.join("replica-1")
	lock := a.gets(t, "job", writes("b"), writes("a"), writes("/b/"[1:2]), writes("b"))
	if got := lock.Requests(); len(got) != 2 || got[0] != writes("a") || got[1] != writes("b") {
		t.Errorf("got requests %v", got)
	}
	free(t, lock, a.gets(t, "nothing"))
	check(t, "second release", lock.Release(t.Context()), nil)
	check(t, "cause", context.Cause(lock.Context()), locking.ErrReleased)
	c.checkNothingLeft("a", "b")
}

func testFlatNameCostsOneAdd(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	c.needsBackend()
	a := c.join("replica-1")
	lock := a.gets(t, "job", writes("flat"))
	if adds, gets := a.faults.Count(OpAdd), a.faults.Count(OpGet); adds != 1 || gets != 0 ||
		a.grants.Count(OpGrant) != 1 {
		t.Errorf("%d adds, %d gets, %d grants", adds, gets, a.grants.Count(OpGrant))
	}
	free(t, lock)
}

func testAdvisoryLocksOfWrites(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	c.needsBackend()
	a := c.join("replica-1")
	job := locking.Request{Resource: resource("job:sales"), Mode: locking.Exclusive}
	lock := a.gets(t, "job", reads("r"), slot("s", 2), writes("w"), job)
	if got := c.keys.all(); len(got) != 1 || !strings.HasSuffix(got[0], "path:w") {
		t.Errorf("advisory locks %q, want that of the exclusive lock", got)
	}
	free(t, lock)
	c.checkNothingLeft("r", "s", "w")
}

// testOwnersReplica uses an owner without a replica.
func testOwnersReplica(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	a, b := c.join("replica-1"), c.join("replica-2")
	for _, wanted := range []locking.Request{writes("a"), reads("a")} {
		lock, err := a.TryAcquire(t.Context(), locking.Owner{}, []locking.Request{wanted})
		check(t, "lock", err, nil)
		_, err = b.try(t, "other", writes("a"))
		var held *locking.HeldError
		if !errors.As(err, &held) || held.Holder.Replica != "replica-1" || !held.Holder.Known() {
			t.Errorf("%v: got %v", wanted, err)
		}
		free(t, lock)
	}
}

func testInspectGranted(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	a, b := c.join("replica-1"), c.join("replica-2")
	lock := a.gets(t, "job", writes("a"), reads("r"))
	found, err := b.Inspect(t.Context(),
		[]locking.Resource{resource("path:a"), resource("path:r"), resource("path:z")})
	if c.store == nil {
		check(t, "inspection without backend", err, locking.ErrUnavailable)
	} else if err != nil || len(found) != 1 || found[resource("path:a")].Job != "job" {
		t.Errorf("got %v, %v", found, err)
	}
	free(t, lock)
}
