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
		ttl := 2 * time.Second
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
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("2 s took %v", took)
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

func testDeleteAll(t *testing.T, f Fixture) {
	b := f.Connect(t)
	keys, values := []string{"missing", "other's"}, [][]byte{[]byte("1"), []byte("1")}
	check(t, "add", b.Add(t.Context(), "other's", []byte("2"), keyTTL), nil)
	for i := range 450 {
		keys, values = append(keys, fmt.Sprintf("k%d", i)),
			append(values, fmt.Appendf(nil, "v%d", i))
		check(t, "add", b.Add(t.Context(), keys[i+2], values[i+2], keyTTL), nil)
	}
	keys, values = append(keys, "k0"), append(values, values[2])
	errs := b.DeleteAll(t.Context(), keys, values)
	if len(errs) != len(keys) {
		t.Fatalf("got %d results, want %d", len(errs), len(keys))
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
	if errs := b.DeleteAll(t.Context(), nil, nil); len(errs) != 0 {
		t.Errorf("delete of no keys: got %v", errs)
	}
	errs = b.DeleteAll(t.Context(), []string{"a", ""}, [][]byte{nil, nil})
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
