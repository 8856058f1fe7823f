package memcached

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/holdfast-dev/holdfast/locking"
)

// maxKeys bounds the keys of one request.
const maxKeys = 200

// Add implements locking.Backend.
func (b *Backend) Add(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if err := locking.CheckKey(key); err != nil {
		return err
	}
	item := &memcache.Item{Key: key, Value: value, Expiration: seconds(ttl)}
	err := b.run(ctx, func() error { return b.client.Add(item) })
	if broke(err) {
		b.dropPool() // so that the look that follows gets a fresh connection
	}
	return changed(err)
}

// Get implements locking.Backend.
func (b *Backend) Get(ctx context.Context, keys ...string) (map[string][]byte, error) {
	values := make(map[string][]byte, len(keys))
	for some := range slices.Chunk(keys, maxKeys) {
		items, err := b.get(ctx, some)
		if err != nil {
			return nil, err
		}
		for key, item := range items {
			values[key] = item.Value
		}
	}
	return values, nil
}

func (b *Backend) get(ctx context.Context, keys []string) (map[string]*memcache.Item, error) {
	for _, key := range keys {
		if err := locking.CheckKey(key); err != nil {
			return nil, err
		}
	}
	found := make(chan map[string]*memcache.Item, 2) // an abandoned request may answer beside its repetition
	err := b.repeat(ctx, func() error {
		items, err := b.fetch(keys)
		if err == nil {
			found <- items
		}
		return err
	})
	if err != nil {
		return nil, asked(err)
	}
	return <-found, nil
}

// fetch asks for the keys. GetMulti starts a goroutine for each server, which
// one key doesn't need.
func (b *Backend) fetch(keys []string) (map[string]*memcache.Item, error) {
	if len(keys) != 1 {
		return b.client.GetMulti(keys)
	}
	item, err := b.client.Get(keys[0])
	if errors.Is(err, memcache.ErrCacheMiss) {
		return nil, nil
	}
	return map[string]*memcache.Item{keys[0]: item}, err
}

// Renew implements locking.Backend. It may also return locking.ErrFull.
func (b *Backend) Renew(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	return b.swap(ctx, key, value, memcache.Item{Value: value, Expiration: seconds(ttl)})
}

// Delete implements locking.Backend. What it stores has ended before it is
// there; it is empty, so that a full server has room for it.
func (b *Backend) Delete(ctx context.Context, key string, value []byte) error {
	return b.swap(ctx, key, value, memcache.Item{Expiration: -1})
}

// swap puts another item in the place of the one that holds value. If the
// connection breaks meanwhile it looks again, once.
func (b *Backend) swap(ctx context.Context, key string, value []byte, with memcache.Item) error {
	with.Key = key
	for broken := false; ; broken = true {
		var err error
		with.CasID, err = b.compare(ctx, key, value)
		switch {
		case broken && errors.Is(err, locking.ErrUnavailable):
			return fmt.Errorf("%w: %w", locking.ErrUnclear, err)
		case broken && with.Expiration < 0 && (errors.Is(err, locking.ErrMissing) || errors.Is(err, locking.ErrNotOwner)):
			return nil // the first time took effect, and its reply was lost
		case err != nil:
			return err
		}
		item := with // the request may outlive this call
		err = b.run(ctx, func() error { return b.client.CompareAndSwap(&item) })
		if broken || !broke(err) {
			return changed(err)
		}
		b.dropPool()
	}
}

// compare returns the version of the item if it holds value.
func (b *Backend) compare(ctx context.Context, key string, value []byte) (version uint64, err error) {
	found, err := b.get(ctx, []string{key})
	if err != nil {
		return 0, err
	}
	item, exists := found[key]
	if !exists {
		return 0, locking.ErrMissing
	}
	if !bytes.Equal(item.Value, value) {
		return 0, locking.ErrNotOwner
	}
	return item.CasID, nil
}

// seconds returns a lifetime for the protocol. Below a second it would be for
// ever, and above 30 days a date.
func seconds(ttl time.Duration) int32 {
	const most = 30 * 24 * time.Hour
	return int32(min(max(ttl, time.Second), most) / time.Second)
}
