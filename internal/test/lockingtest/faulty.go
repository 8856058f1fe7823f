package lockingtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/locking"
)

// Fault is how one operation fails.
type Fault int

// The faults.
const (
	None        Fault = iota
	Unavailable       // not done, returns ErrUnavailable
	Full              // not done, returns ErrFull
	LoseRequest       // not done, returns ErrUnclear
	LoseReply         // done, returns ErrUnclear
	Late              // done later by Land, returns ErrUnclear
)

// Op names a backend's operation.
type Op string

// The operations.
const (
	OpAdd    Op = "add"
	OpGet    Op = "get"
	OpRenew  Op = "renew"
	OpDelete Op = "delete"
)

// Faulty is a backend that passes operations to a real backend and makes chosen ones fail. Its
// methods may be called concurrently.
type Faulty struct {
	backend locking.Backend

	mu     sync.Mutex
	choose func(op Op, key string) Fault
	late   []func()
	after  func() // runs when the current operation has ended
	counts map[Op]int
}

// NewFaulty returns a Faulty on backend without faults.
func NewFaulty(backend locking.Backend) *Faulty {
	return &Faulty{backend: backend, counts: map[Op]int{}}
}

// Choose sets the function that chooses the fault of each operation. It is called for one operation
// at a time, with the first key of a Get. nil ends the faults.
func (f *Faulty) Choose(choose func(op Op, key string) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.choose = choose
}

// Once makes the next operation of a kind fail.
func (f *Faulty) Once(op Op, fault Fault) { f.Times(op, fault, 1) }

// Times makes the next n operations of a kind fail.
func (f *Faulty) Times(op Op, fault Fault, n int) {
	f.Choose(func(found Op, _ string) Fault {
		if found != op || n == 0 {
			return None
		}
		n--
		return fault
	})
}

// Always makes all operations fail.
func (f *Faulty) Always(fault Fault) { f.Choose(func(Op, string) Fault { return fault }) }

// Land runs the operations that Late delayed.
func (f *Faulty) Land() {
	f.mu.Lock()
	late := f.late
	f.late = nil
	f.mu.Unlock()
	for _, land := range late {
		land()
	}
}

// Count returns how many operations of a kind were called. AddAll counts as one, and DeleteAll as
// one for each item.
func (f *Faulty) Count(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[op]
}

// Server implements locking.Backend.
func (f *Faulty) Server(key string) string { return f.backend.Server(key) }

// Add implements locking.Backend.
func (f *Faulty) Add(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	return f.do(ctx, OpAdd, key, func(ctx context.Context) error {
		return f.backend.Add(ctx, key, value, ttl)
	})
}

// Get implements locking.Backend.
func (f *Faulty) Get(ctx context.Context, keys ...string) (values map[string][]byte, err error) {
	first := ""
	if len(keys) > 0 {
		first = keys[0]
	}
	err = f.do(ctx, OpGet, first, func(ctx context.Context) (err error) {
		values, err = f.backend.Get(ctx, keys...)
		return err
	})
	return values, err
}

// Renew implements locking.Backend.
func (f *Faulty) Renew(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	return f.do(ctx, OpRenew, key, func(ctx context.Context) error {
		return f.backend.Renew(ctx, key, value, ttl)
	})
}

// Delete implements locking.Backend.
func (f *Faulty) Delete(ctx context.Context, key string, value []byte) error {
	return f.do(ctx, OpDelete, key, func(ctx context.Context) error {
		return f.backend.Delete(ctx, key, value)
	})
}

// afterNext runs then when the operation that choose decides about has ended. Only choose may call
// it.
func (f *Faulty) afterNext(then func()) { f.after = then }

// AddAll implements locking.Backend. Without planned faults it calls the AddAll of the real
// backend.
func (f *Faulty) AddAll(ctx context.Context, items []locking.Item,
	ttl time.Duration) []locking.Added {
	f.note(OpAdd, 1)
	if !f.choosy() {
		return f.backend.AddAll(ctx, items, ttl)
	}
	results := make([]locking.Added, len(items))
	for i, it := range items {
		results[i].Err = f.fail(ctx, OpAdd, it.Key, func(ctx context.Context) error {
			return f.backend.Add(ctx, it.Key, it.Value, ttl)
		})
	}
	return results
}

// AddEach is an AddAll that adds one item after the other.
func AddEach(ctx context.Context, b interface {
	Add(ctx context.Context, key string, value []byte, ttl time.Duration) error
}, items []locking.Item, ttl time.Duration) []locking.Added {
	results := make([]locking.Added, len(items))
	for i, it := range items {
		results[i].Err = b.Add(ctx, it.Key, it.Value, ttl)
	}
	return results
}

// DeleteAll implements locking.Backend. Without planned faults it calls the DeleteAll of the real
// backend.
func (f *Faulty) DeleteAll(ctx context.Context, items []locking.Item) []error {
	if !f.choosy() {
		f.note(OpDelete, len(items))
		return f.backend.DeleteAll(ctx, items)
	}
	errs := make([]error, 0, len(items))
	for _, it := range items {
		errs = append(errs, f.Delete(ctx, it.Key, it.Value))
	}
	return errs
}

func (f *Faulty) choosy() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.choose != nil
}

func (f *Faulty) note(op Op, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[op] += n
}

// do counts an operation, and makes it fail if that is planned.
func (f *Faulty) do(ctx context.Context, op Op, key string,
	action func(context.Context) error) error {
	f.note(op, 1)
	return f.fail(ctx, op, key, action)
}

func (f *Faulty) fail(ctx context.Context, op Op, key string,
	action func(context.Context) error) error {
	fault, after := f.next(op, key)
	if after != nil {
		defer after()
	}
	switch fault {
	case Unavailable:
		return fmt.Errorf("%w: planned", locking.ErrUnavailable)
	case Full:
		return fmt.Errorf("%w: planned", locking.ErrFull)
	case LoseRequest:
		return fmt.Errorf("%w: planned", locking.ErrUnclear)
	case LoseReply:
		_ = action(ctx) // the lost reply
		return fmt.Errorf("%w: planned", locking.ErrUnclear)
	case Late:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.late = append(f.late, func() { _ = action(context.WithoutCancel(ctx)) })
		return fmt.Errorf("%w: planned", locking.ErrUnclear)
	}
	return action(ctx)
}

func (f *Faulty) next(op Op, key string) (fault Fault, after func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.choose == nil {
		return None, nil
	}
	f.after = nil
	fault = f.choose(op, key)
	return fault, f.after
}
