package lockingtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

func badInputTests() map[string]func(*testing.T, LockerFixture) {
	return map[string]func(*testing.T, LockerFixture){
		"Names":               testBadNames,
		"Requests":            testBadRequests,
		"Long":                testLongNamesGranted,
		"Largest":             testLargestGrantedLock,
		"ForeignAdvisoryLock": testForeignAdvisoryLocks,
		"HashCollision":       testAdvisoryLockOfAnotherName,
		"FreeText":            testOwnersOfGrants,
	}
}

// testBadNames checks that bad names are refused.
func testBadNames(t *testing.T, _ LockerFixture) {
	for _, name := range []string{"", "/", "//", "a//b", ".", "..", "a/..", "../a", "a/./b",
		"a\x00b", "a\nb", "a\x7f", "\u0085", "\xff", strings.Repeat("n", 1025)} {
		for what, parse := range map[string]func(string) (locking.Resource, error){
			"path": locking.Path, "slot": locking.Slot, "job": locking.Job} {
			if r, err := parse(name); !errors.Is(err, locking.ErrBadName) || !r.IsZero() {
				t.Errorf("%s %.20q: got %v (%v), want ErrBadName", what, name, r, err)
			}
		}
	}
}

func testBadRequests(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	m := c.join("replica-1")
	many := make([]locking.Request, 1001)
	for i := range many {
		many[i] = writes(fmt.Sprint("many/", i))
	}
	before := m.tries()
	for what, requests := range map[string][]locking.Request{
		"two modes":          {writes("free"), writes("a"), reads("a")},
		"two numbers":        {slot("a", 1), slot("a", 2), writes("free")},
		"no slots":           {slot("a", 0), writes("free")},
		"too many slots":     {slot("a", 1001), writes("free")},
		"negative slots":     {slot("a", -1)},
		"slots of a writer":  {{Resource: resource("path:a"), Mode: locking.Exclusive, Slots: 1}},
		"an unknown mode":    {{Resource: resource("path:a"), Mode: "upgrade"}},
		"too many resources": many,
	} {
		_, tried := m.try(t, "job", requests...)
		_, waited := m.Acquire(t.Context(), m.owner("job"), requests,
			retry.Policy{Attempts: 5, Delay: 1 << 60})
		for _, err := range []error{tried, waited} {
			var bad *locking.RequestError
			if !errors.As(err, &bad) || !errors.Is(err, locking.ErrBadRequest) ||
				bad.Problem == "" {
				t.Errorf("%s: got %v", what, err)
			}
		}
	}
	_, err := m.try(t, "job", locking.Request{Mode: locking.Exclusive}, writes("free"))
	check(t, "no resource", err, locking.ErrBadName)
	if asked := m.tries() - before; asked != 0 {
		t.Errorf("%d calls to the stores, want none", asked)
	}
	c.checkNothingLeft("a", "free", "many")
}

func testLongNamesGranted(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	a, b := c.join("replica-1"), c.join("replica-2")
	// A grant reads every name above its own. Its limit is 5 s, on a busy machine too.
	depth := soak.Pick(128, 512)
	names := []string{longName(1024), longName(1023), deepName(depth), "with space",
		"with\u00a0space", "größe", `quote"quote`, `back\slash`, "%d_%s"}
	var requests []locking.Request
	for _, name := range names {
		requests = append(requests, writes(name))
	}
	lock := a.gets(t, "job", requests...)
	for i, name := range names {
		if held := b.isRefused(t, "job", requests[i]); held.Resource != requests[i].Resource {
			t.Errorf("%.20q: got blocker %v, want its own resource", name, held)
		}
		b.isRefused(t, "job", reads(name))
	}
	b.isRefused(t, "job", writes("a")) // an ancestor of the deep name
	free(t, lock)
	c.checkNothingLeft(names...)
}

func testLargestGrantedLock(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	const lease = 2 * awaitTimeout // long enough for a busy machine
	a := c.join("replica-1", func(o *locking.Options) { o.Lease = lease })
	b := c.join("replica-2")
	var all []locking.Request
	for i := range 1000 {
		all = append(all, writes(fmt.Sprintf("large/%d", i)))
	}
	lock := a.gets(t, "job", all...)
	b.isRefused(t, "job", writes("large"))
	b.isRefused(t, "job", writes("large/500/x"))
	free(t, lock)
	if c.store != nil {
		// If the removal of an advisory lock timed out, the renewals remove it, three in a lease.
		awaitWithin(t, 3*lease, "removal of the advisory locks", func() bool {
			found, err := c.store.Get(t.Context(), c.store.keys.all()...)
			return err == nil && len(found) == 0
		})
	}
	c.checkNothingLeft("large")
}

// testForeignAdvisoryLocks checks values that another program stored under the key of a lock. They
// count as held by an unknown holder and are not removed.
func testForeignAdvisoryLocks(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	c.needsBackend()
	m := c.join("replica-1")
	long := `{"nonce":"` + strings.Repeat("x", 3000) + `","resource":"path:other"}`
	for _, value := range []string{"", "1", "null", "[]", `{"nonce":`,
		`{"nonce":7,"resource":"path:a"}`, `{"nonce":"x","resource":"path:other","job":"other"}`,
		long, "\x00\xff\r\n"} {
		check(t, "add", c.Add(t.Context(), "test:path:a", []byte(value), lease), nil)
		held := m.isRefused(t, "", writes("z"), writes("a"), reads("r"))
		if held.Holder.Known() || held.Resource != resource("path:a") {
			t.Errorf("%.40q: got blocker %v, want an unknown holder of path:a", value, held)
		}
		checkValue(t, c.store, "test:path:a", value)
		check(t, "delete", c.Delete(t.Context(), "test:path:a", []byte(value)), nil)
	}
	c.checkNothingLeft("a", "z", "r")
}

// testAdvisoryLockOfAnotherName stores the advisory lock of one long name under the key of another,
// like a hash collision. The full names must be compared.
func testAdvisoryLockOfAnotherName(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	c.needsBackend()
	a, b := c.join("replica-1"), c.join("replica-2")
	one, other := longName(1000), longName(999)
	first, second := a.gets(t, "first", writes(one)), a.gets(t, "second", writes(other))
	_, value := c.advisoryLock(t, one)
	key := c.replace(t, other, string(value))
	held := b.isRefused(t, "", writes(other))
	if held.Holder.Known() {
		t.Errorf("the holder of %.10s was taken for the holder of %.10s: %v", one, other, held)
	}
	check(t, "delete", c.Delete(t.Context(), key, value), nil)
	free(t, first, second)
}

func testOwnersOfGrants(t *testing.T, f LockerFixture) {
	c := newCluster(t, f)
	a, b := c.join("replica-1"), c.join("replica-2")
	owner := locking.Owner{Replica: strings.Repeat("ü", 3000), Job: "a\x00b\xff",
		Run: `"<&>` + "\r\n"}
	for _, wanted := range []locking.Request{writes("a"), reads("a")} {
		lock, err := a.TryAcquire(t.Context(), owner, []locking.Request{wanted})
		check(t, "lock", err, nil)
		_, err = b.try(t, "other", writes("a"))
		var held *locking.HeldError
		if !errors.As(err, &held) {
			t.Fatalf("%v: got error %v, want a HeldError", wanted, err)
		}
		if got := held.Holder.Owner; got.Replica != strings.Repeat("ü", 100) || got.Job != "a b " ||
			got.Run != `"<&>  ` {
			t.Errorf("%v: got holder %q", wanted, got)
		}
		free(t, lock)
	}
}
