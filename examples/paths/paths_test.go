package main

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/fleet"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

// TestMain runs the program instead of the tests if a test has started the binary as a node.
func TestMain(m *testing.M) {
	if fleet.Joining() {
		if err := serve(context.Background(), os.Args[1:]); err != nil {
			println(err.Error())
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func newFleet(t *testing.T) *fleet.Fleet {
	t.Helper()
	if testing.Short() {
		t.Skip("needs PostgreSQL and memcached: run without -short")
	}
	f, err := fleet.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Stop(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// join adds the test process to the fleet as a node.
func join(t *testing.T, f *fleet.Fleet, timeout time.Duration) *locker {
	t.Helper()
	m, err := f.Join(t.Context(), "test",
		fleet.Settings{Lease: 10 * time.Second, SessionTTL: sessionTTL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Leave(); err != nil {
			t.Error(err)
		}
	})
	return &locker{Member: m, timeout: timeout}
}

func hold(t *testing.T, f *fleet.Fleet, name, customer string, paths ...string) *fleet.Process {
	t.Helper()
	p, err := f.Spawn(t.Context(), name, append([]string{"hold", customer}, paths...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	if _, err := p.Expect(t.Context(), "holding"); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestMoveBlocksRelatedPathsOnAnotherNode(t *testing.T) {
	f := newFleet(t)
	here := join(t, f, 100*time.Millisecond)
	hold(t, f, "mover", "acme", "/shared/marketing/Dallas", "/archive/Dallas")
	for _, held := range [][]string{
		{"/shared/marketing/Dallas"}, {"/Shared/Marketing/DALLAS"}, {"/shared/marketing/Dallas/2026/plan.doc"}, {"/shared/marketing"}, {"/shared"},
		{"/archive"}, {"/"}, {"/shared/marketing/Austin", "/archive/Dallas/old"},
	} {
		lock, err := here.lockPaths(t.Context(), "acme", held...)
		var is *locking.HeldError
		if !errors.As(err, &is) {
			t.Errorf("%v: got %v, %v, want that it is held", held, lock, err)
			continue
		}
		if is.Holder.Replica != "mover" || is.Holder.Job != "customer acme" {
			t.Errorf("%v: held by %v, want the mover", held, is.Holder)
		}
	}
	for _, free := range [][]string{
		{"/shared/marketing/Austin"}, {"/shared/marketing/Dallas2"}, {"/shared/sales"}, {"/archive/Austin"}, {"/shared/marketing/Austin", "/archive/Austin"},
	} {
		lock, err := here.lockPaths(t.Context(), "acme", free...)
		if err != nil {
			t.Errorf("%v: %v, want the lock", free, err)
			continue
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	lock, err := here.lockPaths(t.Context(), "other", "/shared/marketing/Dallas")
	if err != nil {
		t.Fatalf("another customer's path: %v", err)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "shared", "/a//b", "/a/../b", "/a\x00b"} {
		if _, err := here.lockPaths(t.Context(), "acme", bad); !errors.Is(err, locking.ErrBadName) {
			t.Errorf("%q: %v, want ErrBadName", bad, err)
		}
	}
}

func TestLocksOfDeadNodeAreFreed(t *testing.T) {
	f := newFleet(t)
	here := join(t, f, time.Minute)
	p := hold(t, f, "mover", "acme", "/shared/marketing/Dallas")
	killed := time.Now()
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	lock, err := here.lockPaths(t.Context(), "acme", "/shared/marketing")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("free %s after the node died, sessions expire after %s", time.Since(killed), sessionTTL)
	if err := lock.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLockTimesOut(t *testing.T) {
	f := newFleet(t)
	here := join(t, f, 300*time.Millisecond)
	hold(t, f, "mover", "acme", "/shared")
	_, err := here.lockPaths(t.Context(), "acme", "/shared/marketing")
	var gaveUp *retry.ExhaustedError
	if !errors.Is(err, locking.ErrHeld) || !errors.As(err, &gaveUp) {
		t.Fatalf("%v, want that it is held, and for how long it was tried", err)
	}
	if gaveUp.Waited < here.timeout || gaveUp.Attempts < 1 {
		// On a busy machine one try may take the whole time.
		t.Errorf("gave up after %d tries in %s, want to have waited %s", gaveUp.Attempts,
			gaveUp.Waited, here.timeout)
	}
	t.Log(err)
}

func TestChangesOfRelatedPathsNeverOverlap(t *testing.T) {
	f := newFleet(t)
	r, err := measure(t.Context(), f,
		options{nodes: 3, customers: 10, rate: 20, duration: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", *r)
	if r.overlaps != 0 {
		t.Errorf("%d changes of related paths overlapped", r.overlaps)
	}
	if r.served == 0 {
		t.Error("served moves: got none, want some")
	}
}

func TestOverlapsAreDetected(t *testing.T) {
	a := change{"acme", []string{"/shared/marketing"}, 100, 200}
	for _, test := range []struct {
		b    change
		want int
	}{
		{change{"acme", []string{"/shared/marketing/Dallas"}, 150, 160}, 1},
		{change{"acme", []string{"/x", "/Shared"}, 199, 300}, 1},
		{change{"acme", []string{"/shared/marketing"}, 50, 101}, 1},
		{change{"acme", []string{"/shared/marketing"}, 200, 300}, 0},
		{change{"acme", []string{"/shared/sales"}, 150, 160}, 0},
		{change{"other", []string{"/shared/marketing"}, 150, 160}, 0},
	} {
		if got, err := overlaps([]change{a, test.b}); err != nil || got != test.want {
			t.Errorf("%v: %d, %v, want %d", test.b, got, err, test.want)
		}
		if parsed, err := parseChange(test.b.String()[len("change "):]); err != nil ||
			parsed.String() != test.b.String() {
			t.Errorf("%v is read as %v, %v", test.b, parsed, err)
		}
	}
}
