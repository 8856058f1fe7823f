package lockingtest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/locking"
)

const (
	lease        = 10 * time.Second
	awaitTimeout = 30 * time.Second // for conditions that must become true
)

// store is a fixture with changes that lockers do not see.
type store struct {
	Fixture
	locking.Backend
	keys *recorder
}

func newStore(t *testing.T, f Fixture) *store {
	backend := f.Connect(t)
	return &store{Fixture: f, Backend: backend, keys: &recorder{seen: map[string]struct{}{}}}
}

// recorder records the keys that are added through it.
type recorder struct {
	mu   sync.Mutex
	seen map[string]struct{}
}

func (r *recorder) note(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[key] = struct{}{}
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := make([]string, 0, len(r.seen))
	for key := range r.seen {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// recorded is a backend whose added keys are recorded.
type recorded struct {
	locking.Backend
	keys *recorder
}

// Add implements locking.Backend.
func (r recorded) Add(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	r.keys.note(key)
	return r.Backend.Add(ctx, key, value, ttl)
}

// AddAll implements locking.Backend.
func (r recorded) AddAll(ctx context.Context, items []locking.Item,
	ttl time.Duration) []locking.Added {
	for _, it := range items {
		r.keys.note(it.Key)
	}
	return r.Backend.AddAll(ctx, items, ttl)
}

// replica is one locker of the store, with the events that it reported.
type replica struct {
	*locking.Locker
	faults *Faulty
	name   string

	mu     sync.Mutex
	events []locking.Event
}

// join returns a new replica with its own connection.
func (s *store) join(t *testing.T, name string, change ...func(*locking.Options)) *replica {
	t.Helper()
	r := &replica{name: name, faults: NewFaulty(recorded{s.Connect(t), s.keys})}
	o := locking.Options{Namespace: "test", Lease: lease, Log: zerolog.Nop(), OnEvent: r.note}
	for _, f := range change {
		f(&o)
	}
	locker, err := locking.New(r.faults, o)
	if err != nil {
		t.Fatal(err)
	}
	r.Locker = locker
	return r
}

func restoring(o *locking.Options) { o.Restore = true }

// longLease is for tests in which the end of the lease must not help.
func longLease(o *locking.Options) { o.Lease = 10 * awaitTimeout }

// longReserve lets a waiter keep its position ahead of younger ones even on a busy machine.
func longReserve(o *locking.Options) { o.Reserve = 10 * awaitTimeout }

func (r *replica) note(e locking.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *replica) seen(kind locking.EventKind) []locking.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.events), func(e locking.Event) bool {
		return e.Kind != kind
	})
}

// start runs the replica's renewals until the test ends.
func (r *replica) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("end of renewals: %v", err)
		}
	})
}

func (r *replica) owner(job string) locking.Owner {
	return locking.Owner{Replica: r.name, Job: job, Run: "run-of-" + job}
}

func (r *replica) lock(t *testing.T, job string, names ...string) *locking.Lock {
	t.Helper()
	lock, err := r.TryAcquire(t.Context(), r.owner(job), exclusive(t, names...))
	if err != nil {
		t.Fatalf("lock of %q for %s: %v", names, job, err)
	}
	return lock
}

// advisoryLock returns the only key in the store that holds a lock on name, and its value.
func (s *store) advisoryLock(t *testing.T, name string) (key string, value []byte) {
	t.Helper()
	found, err := s.Get(t.Context(), s.keys.all()...)
	if err != nil {
		t.Fatal(err)
	}
	needle := []byte(`"resource":"` + path(t, name).Key() + `"`)
	for key, value := range found {
		if bytes.Contains(value, needle) {
			return key, value
		}
	}
	t.Fatalf("no advisory lock of %s among %q", name, s.keys.all())
	return "", nil
}

// vanish removes the advisory lock of name, as an eviction does.
func (s *store) vanish(t *testing.T, name string) (key string) {
	t.Helper()
	key, value := s.advisoryLock(t, name)
	if err := s.Delete(t.Context(), key, value); err != nil {
		t.Fatal(err)
	}
	return key
}

// replace replaces the value of name's advisory lock.
func (s *store) replace(t *testing.T, name, value string) (key string) {
	t.Helper()
	key = s.vanish(t, name)
	if err := s.Add(t.Context(), key, []byte(value), time.Minute); err != nil {
		t.Fatal(err)
	}
	return key
}

// checkEmpty checks that no key is left of all that were added.
func (s *store) checkEmpty(t *testing.T) {
	t.Helper()
	found, err := s.Get(t.Context(), s.keys.all()...)
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range found {
		t.Errorf("key left: %s = %s", key, value)
	}
}

func path(t *testing.T, name string) locking.Resource {
	t.Helper()
	resource, err := locking.Path(name)
	if err != nil {
		t.Fatal(err)
	}
	return resource
}

func exclusive(t *testing.T, names ...string) []locking.Request {
	t.Helper()
	var requests []locking.Request
	for _, name := range names {
		requests = append(requests,
			locking.Request{Resource: path(t, name), Mode: locking.Exclusive})
	}
	return requests
}

// checkHeld checks that err is a HeldError of name with this job as holder.
func checkHeld(t *testing.T, err error, name, job string) {
	t.Helper()
	var held *locking.HeldError
	if !errors.As(err, &held) || !errors.Is(err, locking.ErrHeld) {
		t.Errorf("got %v, want a HeldError of %s", err, name)
		return
	}
	if held.Resource != path(t, name) || held.Holder.Job != job {
		t.Errorf("got %v, want %s held by %q", held, name, job)
	}
}

func checkLost(t *testing.T, err error, reason locking.LossReason) {
	t.Helper()
	var lost *locking.LostError
	if !errors.As(err, &lost) || lost.Reason != reason {
		t.Errorf("got %v, want a lost lock with reason %s", err, reason)
	}
}

// await waits until done reports true.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	awaitWithin(t, awaitTimeout, what, done)
}

func awaitWithin(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: timed out", what)
		}
	}
}

// awaitEnd waits for a lock's context and returns its cause.
func awaitEnd(t *testing.T, lock *locking.Lock) error {
	t.Helper()
	select {
	case <-lock.Context().Done():
		return context.Cause(lock.Context())
	case <-time.After(awaitTimeout):
		t.Fatal("the lock's context did not end")
		return nil
	}
}
