package memory

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/locking"
)

// Backend is a locking.Backend in memory. The zero Backend is empty and ready.
type Backend struct {
	mu    sync.Mutex
	items map[string]item
	purge int // the number of items at which expired ones are dropped
}

type item struct {
	value  []byte
	expiry time.Time
}

const minPurge = 256

// New returns an empty Backend.
func New() *Backend { return &Backend{} }

// Server implements locking.Backend.
func (b *Backend) Server(string) string { return "memory" }

// Add implements locking.Backend.
func (b *Backend) Add(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if err := locking.CheckValue(value); err != nil {
		return err
	}
	return b.do(ctx, []string{key}, func(now time.Time) error {
		if _, exists := b.live(key, now); exists {
			return locking.ErrNotStored
		}
		b.dropExpired(now)
		b.items[key] = item{value: slices.Clone(value), expiry: now.Add(ttl)}
		return nil
	})
}

// Get implements locking.Backend.
func (b *Backend) Get(ctx context.Context, keys ...string) (map[string][]byte, error) {
	found := make(map[string][]byte, len(keys))
	err := b.do(ctx, keys, func(now time.Time) error {
		for _, key := range keys {
			if it, exists := b.live(key, now); exists {
				found[key] = slices.Clone(it.value)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Renew implements locking.Backend.
func (b *Backend) Renew(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	return b.do(ctx, []string{key}, func(now time.Time) error {
		it, err := b.owned(key, value, now)
		if err != nil {
			return err
		}
		it.expiry = now.Add(ttl)
		b.items[key] = it
		return nil
	})
}

// Delete implements locking.Backend.
func (b *Backend) Delete(ctx context.Context, key string, value []byte) error {
	return b.do(ctx, []string{key}, func(now time.Time) error {
		if _, err := b.owned(key, value, now); err != nil {
			return err
		}
		delete(b.items, key)
		return nil
	})
}

// AddAll implements locking.Backend.
func (b *Backend) AddAll(ctx context.Context, items []locking.Item,
	ttl time.Duration) []locking.Added {
	results := make([]locking.Added, len(items))
	for i, it := range items {
		results[i].Err = b.Add(ctx, it.Key, it.Value, ttl)
	}
	return results
}

// DeleteAll implements locking.Backend.
func (b *Backend) DeleteAll(ctx context.Context, items []locking.Item) []error {
	errs := make([]error, len(items))
	for i, it := range items {
		errs[i] = b.Delete(ctx, it.Key, it.Value)
	}
	return errs
}

// Ping returns nil.
func (b *Backend) Ping(context.Context) error { return nil }

// Len returns the number of items. Some may have expired.
func (b *Backend) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.items)
}

// do runs act alone, unless ctx has ended or a key is invalid for any backend.
func (b *Backend) do(ctx context.Context, keys []string, action func(now time.Time) error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", locking.ErrUnavailable, context.Cause(ctx))
	}
	for _, key := range keys {
		if err := locking.CheckKey(key); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.items == nil {
		b.items = map[string]item{}
	}
	return action(time.Now())
}

func (b *Backend) live(key string, now time.Time) (item, bool) {
	it, exists := b.items[key]
	return it, exists && now.Before(it.expiry)
}

func (b *Backend) owned(key string, value []byte, now time.Time) (item, error) {
	it, exists := b.live(key, now)
	if !exists {
		return item{}, locking.ErrMissing
	}
	if !bytes.Equal(it.value, value) {
		return item{}, locking.ErrNotOwner
	}
	return it, nil
}

// dropExpired drops expired items each time the number of items has doubled. So keys
// that no caller reads again do not accumulate.
func (b *Backend) dropExpired(now time.Time) {
	if len(b.items) < max(b.purge, minPurge) {
		return
	}
	for key, it := range b.items {
		if !now.Before(it.expiry) {
			delete(b.items, key)
		}
	}
	b.purge = 2 * len(b.items)
}
