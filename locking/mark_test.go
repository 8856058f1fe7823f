package locking_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

// unreachableBackend is a backend that fails all adds and reads.
type unreachableBackend struct{ locking.Backend }

func (unreachableBackend) Add(context.Context, string, []byte, time.Duration) error {
	return fmt.Errorf("add: %w", locking.ErrUnavailable)
}

func (unreachableBackend) Get(context.Context, ...string) (map[string][]byte, error) {
	return nil, fmt.Errorf("get: %w", locking.ErrUnavailable)
}

func markLocker(t *testing.T, b locking.Backend) *locking.Locker {
	t.Helper()
	l, err := locking.New(b, locking.Options{Namespace: "test", Lease: time.Minute, Restore: true,
		Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestMark(t *testing.T) {
	backend := memory.New()
	one, other := markLocker(t, backend), markLocker(t, backend)
	for range 2 { // the second one has no effect
		if err := one.Mark(t.Context(), "done", time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	marked, err := other.Marked(t.Context(), "done", "open")
	if err != nil || !marked["done"] || marked["open"] {
		t.Errorf("got marks %v (%v), want done and not open", marked, err)
	}
	if passed, err := other.Passed(t.Context(), []string{"done"}); err != nil || passed["done"] {
		t.Errorf("got a passed gate with the name of a mark (%v), want none", err)
	}
	if err := one.Mark(t.Context(), "", time.Minute); !errors.Is(err, locking.ErrBadName) {
		t.Errorf("no name: got %v, want ErrBadName", err)
	}
	if err := one.Mark(t.Context(), "done", time.Millisecond); err == nil {
		t.Error("a time of a millisecond: got no error, want one")
	}
}

// slowReads is a backend whose reads take a time.
type slowReads struct {
	locking.Backend
	takes time.Duration
}

func (b slowReads) Get(ctx context.Context, keys ...string) (map[string][]byte, error) {
	if sleep.For(ctx, b.takes) != nil {
		return nil, fmt.Errorf("get: %w: %w", locking.ErrUnavailable, ctx.Err())
	}
	return b.Backend.Get(ctx, keys...)
}

// A caller that does not wait for the reply of a server says nothing about the server. If such a
// caller opened the breaker, a busy replica would pass all gates without asking.
func TestImpatientLookDoesNotOpenTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := memory.New()
		l := markLocker(t, slowReads{backend, 300 * time.Millisecond})
		other := markLocker(t, backend)
		if won, err := other.Gate(t.Context(), "begun", time.Minute); err != nil || !won {
			t.Fatalf("got %v (%v), want the gate", won, err)
		}
		impatient, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := l.Passed(impatient, []string{"begun"})
		if !errors.Is(err, locking.ErrUnavailable) {
			t.Fatalf("got %v, want ErrUnavailable", err)
		}
		if won, err := l.Gate(t.Context(), "begun", time.Minute); err != nil || won {
			t.Errorf("got %v (%v), want that another caller has passed the gate", won, err)
		}
		passed, err := l.Passed(t.Context(), []string{"begun"})
		if err != nil || !passed["begun"] {
			t.Errorf("got %v (%v), want the gate passed", passed, err)
		}
	})
}

func TestMarkWithoutABackend(t *testing.T) {
	l := markLocker(t, unreachableBackend{memory.New()})
	if err := l.Mark(t.Context(), "done", time.Minute); !errors.Is(err, locking.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	if marked, err := l.Marked(t.Context(), "done"); !errors.Is(err, locking.ErrUnavailable) ||
		len(marked) > 0 {
		t.Errorf("got marks %v (%v), want ErrUnavailable", marked, err)
	}
}
