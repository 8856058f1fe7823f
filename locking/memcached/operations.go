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

// maxKeys limits the keys of one request.
const maxKeys = 200

// Server returns the configured address of the server that has the key.
func (b *Backend) Server(key string) string {
	address, err := b.pool.servers.PickServer(key)
	if err != nil {
		return ""
	}
	return address.String()
}

// Add implements locking.Backend.
func (b *Backend) Add(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if err := errors.Join(locking.CheckKey(key), locking.CheckValue(value)); err != nil {
		return err
	}
	item := &memcache.Item{Key: key, Value: value, Expiration: seconds(ttl)}
	err := b.run(ctx, func(c *memcache.Client) error { return c.Add(item) })
	if broke(err) {
		b.pool.drop() // the read that follows gets a new connection
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
	var found map[string]*memcache.Item
	err := b.repeat(ctx, func(c *memcache.Client) (err error) {
		found, err = fetch(c, keys)
		return err
	})
	if err != nil {
		return nil, asked(err)
	}
	return found, nil
}

// fetch reads the keys. For one key it avoids GetMulti, which starts a goroutine for
// each server.
func fetch(c *memcache.Client, keys []string) (map[string]*memcache.Item, error) {
	if len(keys) != 1 {
		return c.GetMulti(keys)
	}
	item, err := c.Get(keys[0])
	if errors.Is(err, memcache.ErrCacheMiss) {
		return nil, nil
	}
	return map[string]*memcache.Item{keys[0]: item}, err
}

// Renew implements locking.Backend. It may also return locking.ErrFull.
func (b *Backend) Renew(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	return b.swap(ctx, key, value, memcache.Item{Value: value, Expiration: seconds(ttl)})
}

// Delete implements locking.Backend. It stores an expired item. That is empty, so
// that a full server has room for it.
func (b *Backend) Delete(ctx context.Context, key string, value []byte) error {
	return b.swap(ctx, key, value, memcache.Item{Expiration: -1})
}

// DeleteAll implements locking.Backend. One request compares all keys.
func (b *Backend) DeleteAll(ctx context.Context, keys []string, values [][]byte) []error {
	errs := make([]error, 0, len(keys))
	for some := range slices.Chunk(keys, maxKeys) {
		found, err := b.get(ctx, some)
		for _, key := range some {
			value := values[len(errs)]
			if err != nil {
				errs = append(errs, err)
				continue
			}
			version, err := owned(found, key, value)
			if err == nil {
				err = b.swapVersion(ctx, key, value, version, memcache.Item{Expiration: -1})
			}
			errs = append(errs, err)
		}
	}
	return errs
}

// swap replaces the item that holds value.
func (b *Backend) swap(ctx context.Context, key string, value []byte, with memcache.Item) error {
	version, err := b.compare(ctx, key, value)
	if err != nil {
		return err
	}
	return b.swapVersion(ctx, key, value, version, with)
}

// swapVersion is swap for a version of the item that was read with value. If the
// connection breaks it reads again, once.
func (b *Backend) swapVersion(ctx context.Context, key string, value []byte, version uint64,
	with memcache.Item) error {
	with.Key, with.CasID = key, version
	send := func(c *memcache.Client) error { return c.CompareAndSwap(&with) }
	err := b.run(ctx, send)
	if !broke(err) {
		return changed(err)
	}
	b.pool.drop()
	with.CasID, err = b.compare(ctx, key, value)
	switch {
	case errors.Is(err, locking.ErrUnavailable):
		return fmt.Errorf("%w: %w", locking.ErrUnclear, err)
	case err != nil && with.Expiration < 0:
		return nil // the first request took effect, and its reply was lost
	case err != nil:
		return err
	}
	return changed(b.run(ctx, send))
}

// compare returns the version of the item if it holds value.
func (b *Backend) compare(ctx context.Context, key string,
	value []byte) (version uint64, err error) {
	found, err := b.get(ctx, []string{key})
	if err != nil {
		return 0, err
	}
	return owned(found, key, value)
}

func owned(found map[string]*memcache.Item, key string, value []byte) (version uint64, err error) {
	item, exists := found[key]
	if !exists {
		return 0, locking.ErrMissing
	}
	if !bytes.Equal(item.Value, value) {
		return 0, locking.ErrNotOwner
	}
	return item.CasID, nil
}

// seconds returns a lifetime for the protocol. memcached reads less than a second as
// unlimited, and more than 30 days as a date.
func seconds(ttl time.Duration) int32 {
	const most = 30 * 24 * time.Hour
	return int32(min(max(ttl, time.Second), most) / time.Second)
}
