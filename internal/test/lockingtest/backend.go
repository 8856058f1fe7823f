package lockingtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/locking"
)

// keyTTL is the TTL of keys that must not expire. It is longer than a test takes on a busy machine.
const keyTTL = time.Minute

func backendTests() map[string]func(*testing.T, Fixture) {
	return map[string]func(*testing.T, Fixture){
		"Add":         testAdd,
		"Owner":       testOwner,
		"GetMany":     testGetMany,
		"Values":      testValues,
		"BadKeys":     testBadKeys,
		"Expiry":      testExpiry,
		"EndedCtx":    testEndedContext,
		"OneAddWins":  testOneAddWins,
		"Connections": testConnections,
		"AddAll":      testAddAll,
		"Versions":    testVersions,
		"DeleteAll":   testDeleteAll,
	}
}

func testAdd(t *testing.T, f Fixture) {
	b := f.Connect(t)
	check(t, "add", b.Add(t.Context(), "k", []byte("1"), keyTTL), nil)
	check(t, "add of a held key", b.Add(t.Context(), "k", []byte("2"), keyTTL),
		locking.ErrNotStored)
	check(t, "add of one's own value", b.Add(t.Context(), "k", []byte("1"), keyTTL),
		locking.ErrNotStored)
	checkValue(t, b, "k", "1")
	check(t, "delete", b.Delete(t.Context(), "k", []byte("1")), nil)
	checkGone(t, b, "k")
	check(t, "add of a key that was freed", b.Add(t.Context(), "k", []byte("3"), keyTTL), nil)
}

func testOwner(t *testing.T, f Fixture) {
	b := f.Connect(t)
	check(t, "renewal of nothing", b.Renew(t.Context(), "k", []byte("1"), keyTTL),
		locking.ErrMissing)
	check(t, "delete of nothing", b.Delete(t.Context(), "k", []byte("1")), locking.ErrMissing)
	check(t, "add", b.Add(t.Context(), "k", []byte("1"), keyTTL), nil)
	for _, other := range []string{"2", "", "11", "1 "} {
		check(t, "another's renewal", b.Renew(t.Context(), "k", []byte(other), keyTTL),
			locking.ErrNotOwner)
		check(t, "another's delete", b.Delete(t.Context(), "k", []byte(other)), locking.ErrNotOwner)
	}
	checkValue(t, b, "k", "1")
	check(t, "renewal", b.Renew(t.Context(), "k", []byte("1"), keyTTL), nil)
	checkValue(t, b, "k", "1")
	check(t, "delete", b.Delete(t.Context(), "k", []byte("1")), nil)
	check(t, "second delete", b.Delete(t.Context(), "k", []byte("1")), locking.ErrMissing)
}

func testGetMany(t *testing.T, f Fixture) {
	b := f.Connect(t)
	var keys []string
	for i := range 450 {
		key := fmt.Sprintf("%s:%d", strings.Repeat("long", 50), i)
		keys = append(keys, key)
		if i%3 == 0 {
			check(t, "add", b.Add(t.Context(), key, []byte(key), keyTTL), nil)
		}
	}
	found, err := b.Get(t.Context(), keys...)
	if err != nil || len(found) != 150 {
		t.Fatalf("got %d of 150: %v", len(found), err)
	}
	for key, value := range found {
		if key != string(value) {
			t.Errorf("key %s has value %s", key, value)
		}
	}
	if found, err := b.Get(t.Context()); err != nil || len(found) != 0 {
		t.Errorf("get of no keys: got %v, %v", found, err)
	}
}

func testValues(t *testing.T, f Fixture) {
	b := f.Connect(t)
	values := [][]byte{{}, []byte("\r\nget k\r\n"), {0, 255, 0},
		bytes.Repeat([]byte("x"), locking.MaxValueBytes)}
	for i, value := range values {
		key := fmt.Sprintf("k%d", i)
		check(t, "add", b.Add(t.Context(), key, value, keyTTL), nil)
		checkValue(t, b, key, string(value))
		check(t, "renewal", b.Renew(t.Context(), key, value, keyTTL), nil)
		check(t, "delete", b.Delete(t.Context(), key, value), nil)
	}
	check(t, "add of more", b.Add(t.Context(), "more", make([]byte, locking.MaxValueBytes+1),
		lease), locking.ErrTooLarge)
	checkGone(t, b, "more")
	value := []byte("mine")
	check(t, "add", b.Add(t.Context(), "copy", value, keyTTL), nil)
	copy(value, "ours")
	checkValue(t, b, "copy", "mine")
}

func testBadKeys(t *testing.T, f Fixture) {
	b := f.Connect(t)
	check(t, "add", b.Add(t.Context(), "k", []byte("1"), keyTTL), nil)
	value := []byte("flush_all") // a server reads the text after an empty key as a command
	bad := []string{"", " ", "a b", "a\tb", "a\r\nflush_all", "a\x00", "a\x7f",
		strings.Repeat("k", 251)}
	for _, key := range bad {
		check(t, "add", b.Add(t.Context(), key, value, keyTTL), locking.ErrBadKey)
		check(t, "renewal", b.Renew(t.Context(), key, value, keyTTL), locking.ErrBadKey)
		check(t, "delete", b.Delete(t.Context(), key, value), locking.ErrBadKey)
		_, err := b.Get(t.Context(), "k", key)
		check(t, "get", err, locking.ErrBadKey)
	}
	checkValue(t, b, "k", "1")
	for _, key := range []string{strings.Repeat("k", 250), "größe", "a:b/c*?{}"} {
		check(t, "add of a good key", b.Add(t.Context(), key, value, keyTTL), nil)
		checkValue(t, b, key, string(value))
	}
}

// testExpiry compares with a control key, because the clock of a store may be coarse.
func testExpiry(t *testing.T, f Fixture) {
	b := f.Connect(t)
	start := time.Now()
	for _, key := range []string{"control", "renewed", "fraction"} {
		// Memcached may drop an item up to two seconds early, and the renewal may be late.
		ttl := 7 * time.Second
		if key == "fraction" {
			ttl = 1500 * time.Millisecond // must not become 0, which means no expiry
		}
		check(t, "add", b.Add(t.Context(), key, []byte("1"), ttl), nil)
	}
	check(t, "renewal", b.Renew(t.Context(), "renewed", []byte("1"), time.Minute), nil)
	await(t, "expiry", func() bool {
		found, err := b.Get(t.Context(), "control", "fraction")
		return err == nil && len(found) == 0
	})
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("7 s took %v", took)
	}
	check(t, "renewal of what ran out", b.Renew(t.Context(), "control", []byte("1"), keyTTL),
		locking.ErrMissing)
	check(t, "add of what ran out", b.Add(t.Context(), "control", []byte("2"), keyTTL), nil)
	checkValue(t, b, "renewed", "1")
}

func testEndedContext(t *testing.T, f Fixture) {
	b := f.Connect(t)
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	check(t, "add", b.Add(ctx, "k", []byte("1"), keyTTL), locking.ErrUnavailable)
	check(t, "renewal", b.Renew(ctx, "k", []byte("1"), keyTTL), locking.ErrUnavailable)
	check(t, "delete", b.Delete(ctx, "k", []byte("1")), locking.ErrUnavailable)
	_, err := b.Get(ctx, "k")
	check(t, "get", err, locking.ErrUnavailable)
	check(t, "get", err, stop)
	checkGone(t, b, "k")
}

func testOneAddWins(t *testing.T, f Fixture) {
	const callers = 32
	b := f.Connect(t)
	for round := range 20 {
		key := fmt.Sprintf("k%d", round)
		won := make(chan string, callers)
		inParallel(callers, func(i int) {
			value := fmt.Sprintf("caller %d", i)
			switch err := b.Add(t.Context(), key, []byte(value), keyTTL); {
			case err == nil:
				won <- value
			case !errors.Is(err, locking.ErrNotStored):
				t.Errorf("add: %v", err)
			}
		})
		close(won)
		if len(won) != 1 {
			t.Fatalf("%d callers added the key, want 1", len(won))
		}
		checkValue(t, b, key, <-won)
	}
}

func testAddAll(t *testing.T, f Fixture) {
	b := f.Connect(t)
	check(t, "add", b.Add(t.Context(), "k100", []byte("other"), keyTTL), nil)
	var items []locking.Item
	for i := range 450 {
		items = append(items, locking.Item{Key: fmt.Sprintf("k%d", i),
			Value: fmt.Appendf(nil, "v%d", i)})
	}
	items = append(items, items[0], locking.Item{Key: "a b"},
		locking.Item{Key: "large", Value: make([]byte, locking.MaxValueBytes+1)})
	results := b.AddAll(t.Context(), items, keyTTL)
	if len(results) != len(items) {
		t.Fatalf("got %d results, want %d", len(results), len(items))
	}
	for i, want := range map[int]error{100: locking.ErrNotStored, 450: locking.ErrNotStored,
		451: locking.ErrBadKey, 452: locking.ErrTooLarge} {
		check(t, items[i].Key, results[i].Err, want)
	}
	if found := results[100].Found; found != nil && string(found) != "other" {
		t.Errorf("found %q under a key that is held, want nothing or the holder's value", found)
	}
	for i, r := range results[:450] {
		if i == 100 {
			continue
		}
		check(t, items[i].Key, r.Err, nil)
		if r.Found != nil {
			t.Errorf("%s: found %q, but it was free", items[i].Key, r.Found)
		}
		checkValue(t, b, items[i].Key, string(items[i].Value))
	}
	if results := b.AddAll(t.Context(), nil, keyTTL); len(results) != 0 {
		t.Errorf("add of no items: got %v", results)
	}
	testAddOnly(t, b)
	stop, cancel := context.WithCancel(t.Context())
	cancel()
	for _, r := range b.AddAll(stop, items[:2], keyTTL) {
		check(t, "add with an ended context", r.Err, locking.ErrUnavailable)
	}
}

// testAddOnly adds items that nobody will remove between items with versions.
func testAddOnly(t *testing.T, b locking.Backend) {
	items := []locking.Item{
		{Key: "only1", Value: []byte("1"), AddOnly: true}, {Key: "kept2", Value: []byte("2")},
		{Key: "k1", Value: []byte("x"), AddOnly: true},
		{Key: "k2", Value: []byte("w2")}, // as long as the holder's
		{Key: "only3", Value: []byte("3"), AddOnly: true}, {Key: "kept4", Value: []byte("4")},
	}
	results := b.AddAll(t.Context(), items, keyTTL)
	for i, want := range []error{nil, nil, locking.ErrNotStored, locking.ErrNotStored, nil, nil} {
		check(t, items[i].Key, results[i].Err, want)
	}
	if found := results[3].Found; found != nil && string(found) != "v2" {
		t.Errorf("found %q under a key that is held, want nothing or the holder's value", found)
	}
	for _, i := range []int{1, 5} {
		it := items[i]
		it.Version = results[i].Version
		check(t, "delete", b.DeleteAll(t.Context(), []locking.Item{it})[0], nil)
		checkGone(t, b, it.Key)
	}
	checkValue(t, b, "only1", "1")
	checkValue(t, b, "only3", "3")
}

// testVersions deletes with versions that are of use, and with those that are not any more.
func testVersions(t *testing.T, f Fixture) {
	b := f.Connect(t)
	add := func(value string) locking.Item {
		it := locking.Item{Key: "k", Value: []byte(value)}
		added := b.AddAll(t.Context(), []locking.Item{it}, keyTTL)[0]
		check(t, "add", added.Err, nil)
		it.Version = added.Version
		return it
	}
	remove := func(what string, b locking.Backend, it locking.Item, want error) {
		t.Helper()
		check(t, what, b.DeleteAll(t.Context(), []locking.Item{it})[0], want)
	}
	first := add("1")
	remove("delete", b, first, nil)
	remove("second delete", b, first, locking.ErrMissing)
	second := add("2")
	remove("delete by the owner before", b, first, locking.ErrNotOwner)
	checkValue(t, b, "k", "2")
	check(t, "renewal", b.Renew(t.Context(), "k", second.Value, keyTTL), nil)
	remove("delete after a renewal", b, second, nil)
	third := add("3")
	remove("delete by another connection", f.Connect(t), third, nil)
	checkGone(t, b, "k")
	old := add("4")
	if f.Forget == nil {
		return
	}
	f.Forget(t)
	await(t, "the store is back", func() bool {
		_, err := b.Get(t.Context(), "k")
		return err == nil
	})
	same := false
	for i := range 60 { // until the version is the same, if the store counts from the beginning
		next := add("5")
		if i%3 == 2 { // another version, so that not all are odd
			check(t, "renewal", b.Renew(t.Context(), "k", next.Value, keyTTL), nil)
		}
		same = same || next.Version.Number == old.Version.Number
		remove("delete after the store has forgotten", b, old, locking.ErrNotOwner)
		checkValue(t, b, "k", "5")
		remove("delete by the new owner", b, next, nil)
	}
	if !same {
		t.Errorf("no version was %d again", old.Version.Number)
	}
}

func testDeleteAll(t *testing.T, f Fixture) {
	b := f.Connect(t)
	items := []locking.Item{{Key: "missing", Value: []byte("1")},
		{Key: "other's", Value: []byte("1")}}
	keys := []string{"missing", "other's"}
	check(t, "add", b.Add(t.Context(), "other's", []byte("2"), keyTTL), nil)
	for i := range 450 {
		it := locking.Item{Key: fmt.Sprintf("k%d", i), Value: fmt.Appendf(nil, "v%d", i)}
		check(t, "add", b.Add(t.Context(), it.Key, it.Value, keyTTL), nil)
		items, keys = append(items, it), append(keys, it.Key)
	}
	items = append(items, items[2])
	errs := b.DeleteAll(t.Context(), items)
	if len(errs) != len(items) {
		t.Fatalf("got %d results, want %d", len(errs), len(items))
	}
	check(t, "delete of nothing", errs[0], locking.ErrMissing)
	check(t, "another's", errs[1], locking.ErrNotOwner)
	for i, err := range errs[2 : len(errs)-1] {
		check(t, keys[i+2], err, nil)
	}
	if errs[len(errs)-1] == nil {
		t.Error("second delete of a key: got success, want an error")
	}
	checkValue(t, b, "other's", "2")
	found, err := b.Get(t.Context(), keys...)
	if err != nil || len(found) != 1 {
		t.Errorf("keys left: %v, %v", found, err)
	}
	if errs := b.DeleteAll(t.Context(), nil); len(errs) != 0 {
		t.Errorf("delete of no keys: got %v", errs)
	}
	errs = b.DeleteAll(t.Context(), []locking.Item{{Key: "a"}, {}})
	check(t, "delete with a bad key", errs[1], locking.ErrBadKey)
}

func testConnections(t *testing.T, f Fixture) {
	one, other := f.Connect(t), f.Connect(t)
	check(t, "add", one.Add(t.Context(), "k", []byte("1"), keyTTL), nil)
	check(t, "add by another connection", other.Add(t.Context(), "k", []byte("2"), keyTTL),
		locking.ErrNotStored)
	check(t, "delete by another connection", other.Delete(t.Context(), "k", []byte("1")), nil)
	checkGone(t, one, "k")
}

// check fails the test unless err is want, or nil if want is nil.
func check(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

func checkValue(t *testing.T, b locking.Backend, key, want string) {
	t.Helper()
	found, err := b.Get(t.Context(), key)
	value, exists := found[key]
	if err != nil || !exists || string(value) != want {
		t.Errorf("key %.40s: got %.40q (%v, %v), want %.40q", key, value, exists, err, want)
	}
}

func checkGone(t *testing.T, b locking.Backend, key string) {
	t.Helper()
	found, err := b.Get(t.Context(), key)
	if err != nil || len(found) != 0 {
		t.Errorf("key %.40s exists: %q, %v", key, found, err)
	}
}
