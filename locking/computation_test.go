package locking

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// countingBackend stores nothing and counts adds.
type countingBackend struct {
	Backend
	adds int
}

func (b *countingBackend) Add(context.Context, string, []byte, time.Duration) error {
	b.adds++
	return nil
}

// A paused process continues with an expired lock before its timers have run.
func TestExpiredLockStoresNoValue(t *testing.T) {
	backend := &countingBackend{}
	locker, err := New(backend, Options{Namespace: "test", Lease: minLease})
	if err != nil {
		t.Fatal(err)
	}
	memo, err := NewMemo(locker, Owner{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := memo.newComputation("list", time.Minute, func(context.Context) ([]byte, error) {
		return []byte("stale"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	lock := newLock(t.Context(), locker, Owner{}, time.Now(), nil, nil)
	lock.trusted = time.Now()
	lost := new(LostError)
	for name, action := range map[string]func() ([]byte, error){
		"computed": func() ([]byte, error) { return c.take(t.Context(), lock) },
		"stored": func() ([]byte, error) {
			c.begun = 1
			return c.store(t.Context(), lock, nil)
		},
	} {
		c.begun = 0
		if value, err := action(); !errors.As(err, &lost) || lost.Reason != LossUnconfirmed ||
			value != nil || !strings.HasPrefix(err.Error(), "memo list: computed 1 time: ") {
			t.Errorf("%s: got %q, %v", name, value, err)
		}
	}
	if backend.adds != 0 {
		t.Error("value: got it stored, want it dropped")
	}
	lock.trusted = time.Now().Add(time.Minute)
	if value, err := c.take(t.Context(), lock); err != nil || string(value) != "stale" ||
		backend.adds != 1 {
		t.Errorf("under a valid lock: got %q, %v, and %d adds", value, err, backend.adds)
	}
}

func TestMemosAreUnrelated(t *testing.T) {
	seen := map[Resource]string{}
	for _, key := range []string{"a", "a/b", "a%2Fb", "a%252Fb", "a%b", "/a", "a/"} {
		r, err := memoResource(key)
		if err != nil {
			t.Fatal(err)
		}
		for other, its := range seen {
			if r.Related(other) {
				t.Errorf("%q and %q are related", key, its)
			}
		}
		seen[r] = key
		if parsed, err := ParseKey(r.Key()); err != nil || parsed != r {
			t.Errorf("%q: got %v (%v), want the resource", r.Key(), parsed, err)
		}
	}
}

func TestFlightsAreRemoved(t *testing.T) {
	f := newFlights()
	one, other := f.join("k"), f.join("k")
	if one != other {
		t.Fatal("computations of two callers: got two, want one")
	}
	f.land("k", one, []byte("value"), nil)
	late := f.join("k")
	if late == one {
		t.Error("value of a later caller: got the earlier value, want a new one")
	}
	f.leave("k", one)
	f.leave("k", other)
	if f.byKey["k"] != late {
		t.Error("later computation: got it cancelled, want it kept")
	}
	f.leave("k", late)
	if len(f.byKey) != 0 {
		t.Errorf("left: %v", f.byKey)
	}
}
