package locking_test

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

func TestOptions(t *testing.T) {
	tests := map[string]struct {
		options locking.Options
		valid   bool
	}{
		"shortest lease":       {locking.Options{Namespace: "n", Lease: 10 * time.Second}, true},
		"longest lease":        {locking.Options{Namespace: "n", Lease: 24 * time.Hour}, true},
		"lease too short":      {locking.Options{Namespace: "n", Lease: 10*time.Second - 1}, false},
		"lease too long":       {locking.Options{Namespace: "n", Lease: 24*time.Hour + 1}, false},
		"no lease":             {locking.Options{Namespace: "n"}, false},
		"no namespace":         {locking.Options{Lease: lease}, false},
		"namespace with space": {locking.Options{Namespace: "a b", Lease: lease}, false},
		"namespace too long":   {locking.Options{Namespace: string(make([]byte, 101)), Lease: lease}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := locking.New(memory.New(), test.options); (err == nil) != test.valid {
				t.Errorf("got %v, want it to be valid: %v", err, test.valid)
			}
		})
	}
}

func newLocker(t *testing.T, b locking.Backend, o locking.Options) *locking.Locker {
	t.Helper()
	o.Namespace, o.Lease = "test", cmp.Or(o.Lease, lease)
	locker, err := locking.New(b, o)
	if err != nil {
		t.Fatal(err)
	}
	return locker
}

// start returns a locker whose renewals run until the test ends.
func start(t *testing.T, b locking.Backend, o locking.Options) *locking.Locker {
	t.Helper()
	locker := newLocker(t, b, o)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- locker.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return locker
}

func lock(t *testing.T, l *locking.Locker, names ...string) *locking.Lock {
	t.Helper()
	k, err := l.TryAcquire(t.Context(), locking.Owner{Job: "job"}, exclusive(t, names...))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func release(t *testing.T, k *locking.Lock) {
	t.Helper()
	if err := k.Release(t.Context()); err != nil {
		t.Errorf("release: %v", err)
	}
}

func exclusive(t *testing.T, names ...string) []locking.Request {
	t.Helper()
	var requests []locking.Request
	for _, resource := range resources(t, names...) {
		requests = append(requests, locking.Request{Resource: resource, Mode: locking.Exclusive})
	}
	return requests
}

func resources(t *testing.T, names ...string) []locking.Resource {
	t.Helper()
	var list []locking.Resource
	for _, name := range names {
		resource, err := locking.Path(name)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, resource)
	}
	return list
}

// TestContextAfterTheEndOfALock checks a context that is used for the first time when its lock has
// ended.
func TestContextAfterTheEndOfALock(t *testing.T) {
	l := newLocker(t, memory.New(), locking.Options{})
	lock, err := l.TryAcquire(t.Context(), locking.Owner{}, exclusive(t, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if cause := context.Cause(lock.Context()); !errors.Is(cause, locking.ErrReleased) {
		t.Errorf("the context ended with %v, want %v", cause, locking.ErrReleased)
	}
}
