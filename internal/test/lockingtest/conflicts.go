package lockingtest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

func conflictTests() map[string]func(*testing.T, GrantsFixture) {
	return map[string]func(*testing.T, GrantsFixture){
		"Pairs":                  testPairs,
		"Blocker":                testBlocker,
		"Kinds":                  testKinds,
		"SimilarNames":           testSimilarNames,
		"LongNames":              testLongResources,
		"AllOrNothing":           testGrantAllOrNothing,
		"NoRequests":             testGrantOfNoRequests,
		"Slots":                  testSlots,
		"SlotCountOfEachRequest": testSlotCountOfEachRequest,
		"ConflictsWithinBatch":   testConflictsWithinBatch,
		"LargestBatch":           testLargestBatch,
		"LargestLock":            testLargestLock,
		"ManyDescendants":        testManyDescendants,
		"HolderIsNamed":          testHolderIsNamedFirst,
	}
}

// testPairs requests each pair of many resources, below a name of their own, and compares the
// answers with [locking.Conflict].
func testPairs(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	one, two := c.session("one"), c.session("two")
	var shapes []func(root string) locking.Request
	for _, name := range []string{"a", "a/b", "a/b/c/d", "a/c", "ab"} {
		shapes = append(shapes,
			func(root string) locking.Request { return writes(root + name) },
			func(root string) locking.Request { return reads(root + name) },
			func(root string) locking.Request { return slot(root+name, 1) },
			func(root string) locking.Request { return slot(root+name, 2) })
	}
	var firsts, seconds []locking.GrantRequest
	for i, first := range shapes {
		for j, second := range shapes {
			root := fmt.Sprintf("%d-%d/", i, j)
			firsts, seconds = append(firsts, ask(first(root))), append(seconds, ask(second(root)))
		}
	}
	for i, result := range c.grant(one, firsts...) {
		if result.Blocker != nil {
			t.Fatalf("%v was refused by %+v", firsts[i].Requests, *result.Blocker)
		}
	}
	for i, result := range c.grant(two, seconds...) {
		first, second := firsts[i].Requests[0], seconds[i].Requests[0]
		full := first.Mode == locking.Slotted && second.Mode == locking.Slotted &&
			first.Resource == second.Resource && second.Slots == 1
		if want := locking.Conflict(first, second) || full; (result.Blocker != nil) != want {
			t.Errorf("%v beside %v: blocked by %+v, want %v", second, first, result.Blocker,
				want)
		} else if want && (result.Blocker.ID != firsts[i].ID ||
			result.Blocker.Resource != first.Resource) {
			t.Errorf("%v beside %v: blocked by %+v", second, first, *result.Blocker)
		}
	}
}

func testBlocker(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	one, two := c.session("one"), c.session("two")
	holder := ask(writes("a/b"), writes("z"))
	holder.Owner = locking.Owner{Replica: "replica-1", Job: "größe", Run: `"run" 'x'`}
	c.granted(one, holder)
	if b := c.refused(two, ask(writes("a")), holder); b.Resource != resource("path:a/b") {
		t.Errorf("got blocking resource %v", b.Resource)
	}
	if b := c.refused(two, ask(reads("z/y/x")), holder); b.Resource != resource("path:z") {
		t.Errorf("got blocking resource %v", b.Resource)
	}
	c.refused(one, ask(writes("z")), holder) // locks of one session also exclude each other
}

func testKinds(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	s := c.session("one")
	for _, kind := range []locking.Kind{locking.KindTable, locking.KindPath, locking.KindSlot,
		locking.KindJob} {
		for _, name := range []string{"a", "b/c"} {
			c.granted(s, ask(locking.Request{Resource: resource(string(kind) + ":" + name),
				Mode: locking.Exclusive}))
		}
	}
	// the names of jobs and memos are no paths
	for _, key := range []string{"job:b", "job:a/d", "memo:b", "memo:b/c"} {
		c.granted(s, ask(locking.Request{Resource: resource(key), Mode: locking.Exclusive}))
	}
}

func testSimilarNames(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	s := c.session("one")
	for _, name := range []string{"s", "S", "ss", "s0", "s.", "s-", "s_", "s%", "s a", "s:", "ß",
		"ş", "s\\", "s'", `s"`, "s!x", "s1/a", "s.a/b"} {
		c.granted(s, ask(writes(name)))
	}
	for _, name := range []string{"t/a", "t/ab", "t/a b", "t/a-b", "t/a.b", "t/a0", "t/A",
		"t/a_b/c", "t/a%", "t/ä"} {
		c.granted(s, ask(writes(name)))
	}
}

// testLongResources locks names of the largest length and depth.
func testLongResources(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	s := c.session("one")
	long, deep := longName(1024), deepName(512)
	for _, name := range []string{long, deep} {
		holder := ask(writes(name))
		token := c.granted(s, holder)
		c.refused(s, ask(writes(name)), holder)
		c.granted(s, ask(writes(name[:len(name)-2]+"zz")))
		c.release(token)
		c.granted(s, ask(writes(name)))
	}
}

// longName is one segment of n bytes that does not compress well.
func longName(n int) string {
	name := make([]byte, n)
	for i := range name {
		name[i] = 'a' + byte(i*i*7+i*13)%26
	}
	return string(name)
}

// deepName has n segments of one letter.
func deepName(n int) string {
	name := make([]byte, 0, 2*n)
	for i := range n {
		name = append(name, '/', 'a'+byte(i%25))
	}
	return string(name[1:])
}

func testGrantAllOrNothing(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	one, two := c.session("one"), c.session("two")
	holder := ask(writes("m"))
	token := c.granted(one, holder)
	wanted := ask(writes("a"), reads("b"), writes("m"), slot("z", 1))
	c.refused(two, wanted, holder)
	for _, r := range []locking.Request{writes("a"), writes("b"), writes("z")} {
		c.release(c.granted(one, ask(r)))
	}
	c.release(token)
	c.granted(two, wanted)
	for _, r := range []locking.Request{writes("a"), writes("b"), writes("m"), writes("z")} {
		c.refused(one, ask(r), wanted)
	}
}

func testGrantOfNoRequests(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	s := c.session("one")
	nothing := ask()
	token := c.granted(s, nothing)
	if again := c.granted(s, nothing); again != token {
		t.Errorf("token %d, then %d", token, again)
	}
	if other := c.granted(s, ask()); other == token {
		t.Errorf("two locks have token %d", token)
	}
	c.release(token)
	if results, err := c.Grant(t.Context(), s, nil); err != nil || len(results) != 0 {
		t.Errorf("grant of no requests: got %v, %v", results, err)
	}
}

func testSlots(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	one, two := c.session("one"), c.session("two")
	var tokens []locking.Token
	for i := range 3 {
		tokens = append(tokens, c.granted([]uuid.UUID{one, two}[i%2], ask(slot("api", 3))))
	}
	late := ask(slot("api", 3))
	if b := c.grant(two, late)[0].Blocker; b == nil || b.Resource != resource("path:api") ||
		b.Waiting {
		t.Errorf("the fourth of three slots: blocked by %+v", b)
	}
	c.granted(two, ask(slot("other", 3)))
	c.release(tokens[1])
	c.granted(two, late)
	if c.grant(one, ask(slot("api", 3)))[0].Blocker == nil {
		t.Error("second lock on a slot: got a grant, want a refusal")
	}
}

func testSlotCountOfEachRequest(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	s := c.session("one")
	c.granted(s, ask(slot("api", 5)))
	c.granted(s, ask(slot("api", 5)))
	if c.grant(s, ask(slot("api", 2)))[0].Blocker == nil {
		t.Error("a third lock was granted one of two slots")
	}
	c.granted(s, ask(slot("api", 1000)))
}

func testConflictsWithinBatch(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	s := c.session("one")
	requests := []locking.GrantRequest{
		ask(writes("a/b")), ask(writes("a")), ask(writes("a/b")), ask(reads("r")), ask(reads("r")),
		ask(writes("r/x")),
		ask(slot("n", 2)), ask(slot("n", 2)), ask(slot("n", 2)), ask(writes("a/c")),
	}
	// by index; 3 and 6 mean any lock of their kind
	blockers := []int{-1, 0, 0, -1, -1, 3, -1, -1, 6, -1}
	for i, result := range c.grant(s, requests...) {
		if (result.Blocker == nil) != (blockers[i] < 0) {
			t.Errorf("request %d, %v: blocked by %+v", i, requests[i].Requests, result.Blocker)
			continue
		}
		if b := result.Blocker; b != nil &&
			(b.Waiting || b.Resource != requests[blockers[i]].Requests[0].Resource) {
			t.Errorf("request %d, %v: blocked by %+v", i, requests[i].Requests, *b)
		}
	}
}

func testLargestBatch(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	s := c.session("one")
	requests := make([]locking.GrantRequest, locking.MaxGrants)
	ids := map[locking.Token]bool{}
	for i := range requests {
		requests[i] = ask(writes(fmt.Sprintf("large/%d", i%(locking.MaxGrants/2))))
	}
	var tokens []locking.Token
	for i, result := range c.grant(s, requests...) {
		if second := i >= len(requests)/2; second != (result.Blocker != nil) {
			t.Fatalf("request %d: %+v", i, result)
		}
		if result.Token != 0 {
			tokens, ids[result.Token] = append(tokens, result.Token), true
		}
	}
	if len(ids) != len(tokens) {
		t.Errorf("%d tokens for %d claims", len(ids), len(tokens))
	}
	tokens = append(tokens, slices.Repeat([]locking.Token{-1}, locking.MaxGrants-len(tokens))...)
	released, err := c.Release(t.Context(), tokens)
	want := slices.Concat(slices.Repeat([]locking.ReleaseResult{locking.ReleaseDone}, len(ids)),
		slices.Repeat([]locking.ReleaseResult{locking.ReleaseMissing}, len(tokens)-len(ids)))
	if err != nil || !slices.Equal(released, want) {
		t.Errorf("release of %d: %v, %v", len(tokens), released, err)
	}
	c.granted(s, ask(writes("large")))
}

func testLargestLock(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	s := c.session("one")
	var all []locking.Request
	for i := range locking.MaxGrants {
		all = append(all, writes(fmt.Sprintf("large/%d/x", i)))
	}
	holder := ask(all...)
	token := c.granted(s, holder)
	c.refused(s, ask(writes("large/500")), holder)
	waiter := waiting(ask(all...))
	c.refused(s, waiter, holder)
	c.release(token)
	c.yields(s, ask(writes("large/999/x/y")), waiter)
	token = c.granted(s, waiter)
	c.release(token)
	c.granted(s, ask(writes("large")))
}

// testManyDescendants adds many shared locks below a name. They must not hide the one exclusive
// lock.
func testManyDescendants(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	s := c.session("one")
	requests := make([]locking.GrantRequest, locking.MaxGrants)
	for i := range requests {
		requests[i] = ask(reads(fmt.Sprintf("top/%d", i)))
	}
	writer := ask(writes("top/700/x"))
	requests[700] = writer
	c.grant(s, requests...)
	c.refused(s, ask(reads("top")), writer)
	c.granted(s, ask(reads("top/699")))
	if c.grant(s, ask(writes("top")))[0].Blocker == nil {
		t.Error("a name was locked although a descendant is held")
	}
}

func testHolderIsNamedFirst(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	s := c.session("one")
	a, z := ask(writes("a")), ask(writes("z"))
	tokenA := c.granted(s, a)
	c.granted(s, z)
	waiter := waiting(ask(writes("a")))
	c.refused(s, waiter, a)
	c.release(tokenA)
	for range 3 {
		// the blocker is the holder of z, not the waiter for a
		c.refused(s, ask(writes("a"), writes("z")), z)
	}
}
