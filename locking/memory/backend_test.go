package memory_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/lockingtest"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

func TestConformance(t *testing.T) {
	lockingtest.Run(t, func(*testing.T) lockingtest.Fixture {
		backend := memory.New()
		return lockingtest.Fixture{Connect: func(*testing.T) locking.Backend { return backend }}
	}, synctest.Test)
}

func TestExpiryIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New()
		if err := b.Add(t.Context(), "k", []byte("1"), 10*time.Second); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*time.Second - time.Nanosecond)
		if found, err := b.Get(t.Context(), "k"); err != nil || len(found) != 1 {
			t.Fatalf("gone early: %v, %v", found, err)
		}
		time.Sleep(time.Nanosecond)
		if found, err := b.Get(t.Context(), "k"); err != nil || len(found) != 0 {
			t.Fatalf("still there: %v, %v", found, err)
		}
	})
}

func TestExpiredKeysAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New()
		most := 0
		for i := range 20_000 {
			if err := b.Add(t.Context(), fmt.Sprintf("firing %d", i)[7:], nil,
				time.Second); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
			most = max(most, b.Len())
		}
		if most > 1000 {
			t.Errorf("%d items for 100 that have not expired", most)
		}
	})
}

func TestZeroBackend(t *testing.T) {
	var b memory.Backend
	if err := b.Add(t.Context(), "k", nil, time.Second); err != nil {
		t.Fatal(err)
	}
	if err := b.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
}
