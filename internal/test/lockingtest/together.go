package lockingtest

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// testGatesTogether passes gates of which some were passed before, in one request.
func testGatesTogether(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a, b := s.join(t, "replica-1"), s.join(t, "replica-2")
	var names []string
	for i := range 300 {
		names = append(names, fmt.Sprint("firing ", i))
	}
	for _, result := range a.Gates(t.Context(), names[:100], time.Minute) {
		if !result.Won || result.Err != nil {
			t.Errorf("the first caller got %v, %v", result.Won, result.Err)
		}
	}
	before := b.faults.Count(OpAdd)
	results := b.Gates(t.Context(), slices.Insert(slices.Clone(names), 150, ""), time.Minute)
	if adds := b.faults.Count(OpAdd) - before; adds != 1 {
		t.Errorf("%d adds, want one for all gates", adds)
	}
	check(t, "gate without a name", results[150].Err, locking.ErrBadName)
	for i, result := range slices.Delete(results, 150, 151) {
		if result.Won != (i >= 100) || result.Err != nil {
			t.Errorf("gate %d: got %v, %v", i, result.Won, result.Err)
		}
	}
	if results := a.Gates(t.Context(), nil, time.Minute); len(results) != 0 {
		t.Errorf("no gates: got %v", results)
	}
}

// testGatesTogetherFail loses the replies of some of the gates that are passed together.
func testGatesTogetherFail(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1")
	faults := []Fault{None, LoseReply, None, LoseRequest, Unavailable, Full, LoseReply, None}
	adds := 0
	a.faults.Choose(func(op Op, _ string) Fault {
		if op != OpAdd || adds == len(faults) {
			return None
		}
		adds++
		return faults[adds-1]
	})
	var names []string
	for i := range faults {
		names = append(names, fmt.Sprint("firing ", i))
	}
	for i, result := range a.Gates(t.Context(), names, time.Minute) {
		switch fails := faults[i] == Unavailable || faults[i] == Full; {
		case fails && (result.Won || result.Err == nil):
			t.Errorf("fault %d: got %v, %v, want an error", faults[i], result.Won, result.Err)
		case !fails && (!result.Won || result.Err != nil):
			t.Errorf("fault %d: got %v, %v, want the gate", faults[i], result.Won, result.Err)
		}
	}
}

// tryResult is a result of TryAcquireEachIn.
type tryResult struct {
	lock *locking.Lock
	err  error
}

// tryEach returns the results of TryAcquireEachIn, in the order of the owners.
func (r *replica) tryEach(t *testing.T, all []locking.Wanted) []tryResult {
	t.Helper()
	results, calls := make([]tryResult, len(all)), make([]atomic.Int64, len(all))
	r.TryAcquireEachIn(t.Context(), uuid.Nil, all, func(i int, lock *locking.Lock, err error) {
		results[i] = tryResult{lock, err}
		calls[i].Add(1)
	})
	for i := range calls {
		if n := calls[i].Load(); n != 1 {
			t.Errorf("owner %d got %d results, want 1", i, n)
		}
	}
	return results
}

// testOwnersTogether locks for several owners in one request. Each gets all of its resources, or
// none.
func testOwnersTogether(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a, b := s.join(t, "replica-1"), s.join(t, "replica-2")
	blocker := b.lock(t, "blocker", "held")
	before := a.faults.Count(OpAdd)
	wanted := func(job string, names ...string) locking.Wanted {
		return locking.Wanted{Owner: a.owner(job), Requests: exclusive(t, names...)}
	}
	tried := a.tryEach(t, []locking.Wanted{
		wanted("one", "a", "b"), wanted("two", "c", "held", "d"), wanted("three", "e"),
		wanted("four", "f", "b"), {Requests: []locking.Request{{}}}, {}, wanted("five", "g"),
	})
	if adds := a.faults.Count(OpAdd) - before; adds != 1 {
		t.Errorf("%d adds, want one for all owners", adds)
	}
	for i, want := range []bool{true, false, true, false, false, true, true} {
		if (tried[i].lock != nil) != want || (tried[i].err == nil) != want {
			t.Errorf("owner %d: got %v, %v", i, tried[i].lock, tried[i].err)
		}
	}
	checkHeld(t, tried[1].err, "held", "blocker")
	checkHeld(t, tried[3].err, "b", "one")
	check(t, "lock of no name", tried[4].err, locking.ErrBadName)
	check(t, "release", b.lock(t, "other", "c", "d", "f").Release(t.Context()), nil)
	for _, each := range append(tried, tryResult{lock: blocker}) {
		if each.lock != nil {
			check(t, "release", each.lock.Release(t.Context()), nil)
		}
	}
	s.checkEmpty(t)
}

// testOwnersTogetherFail loses requests and replies of some of the owners.
func testOwnersTogetherFail(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1")
	faults := map[string]Fault{"b": LoseReply, "c": LoseRequest, "d": Unavailable, "e": Full}
	a.faults.Choose(func(op Op, key string) Fault {
		name := key[len(key)-1:]
		fault := faults[name]
		if op != OpAdd {
			return None
		}
		delete(faults, name)
		return fault
	})
	var all []locking.Wanted
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		all = append(all, locking.Wanted{Owner: a.owner(name), Requests: exclusive(t, name)})
	}
	tried := a.tryEach(t, all)
	for i, want := range []error{nil, nil, nil, locking.ErrUnavailable, locking.ErrFull, nil} {
		check(t, all[i].Owner.Job, tried[i].err, want)
		if want == nil && tried[i].err == nil {
			check(t, "release", tried[i].lock.Release(t.Context()), nil)
		}
	}
	s.checkEmpty(t)
}
