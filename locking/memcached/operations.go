package memcached

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/locking"
)

// remove is the lifetime that removes an item: memcached treats it as expired.
const remove = -1

// Server implements locking.Backend. It returns the configured address.
func (b *Backend) Server(key string) string { return string(b.link(key).server) }

// Add implements locking.Backend.
func (b *Backend) Add(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if err := errors.Join(locking.CheckKey(key), locking.CheckValue(value)); err != nil {
		return err
	}
	request := b.newCall(1)
	request.add(key, value, ttl)
	_, err := b.link(key).do(ctx, request)
	return changed(request.reply(0), err)
}

// AddAll implements locking.Backend.
func (b *Backend) AddAll(ctx context.Context, items []locking.Item,
	ttl time.Duration) []locking.Added {
	results := make([]locking.Added, len(items))
	check := func(i int) error {
		return errors.Join(locking.CheckKey(items[i].Key), locking.CheckValue(items[i].Value))
	}
	b.eachServer(len(items), func(i int) string { return items[i].Key }, check,
		func(i int, err error) { results[i].Err = err },
		func(l *link, mine []int) {
			request := b.newCall(len(mine) + 1 + len(mine)/maxKeys)
			keys, values := make([]string, 0, len(mine)), make([][]byte, 0, len(mine))
			for _, i := range mine {
				it := &items[i]
				request.add(it.Key, it.Value, ttl)
				if !it.AddOnly {
					keys, values = append(keys, it.Key), append(values, it.Value)
				}
			}
			// memcached sends its pending replies after each command that reads. So one command
			// reads all values, after all adds.
			for from := 0; from < len(keys); from += maxKeys {
				to := min(from+maxKeys, len(keys))
				request.gets(keys[from:to], values[from:to])
			}
			c, err := l.do(ctx, request)
			found := request.values(len(mine), keys)
			for n, i := range mine {
				var read *item
				if !items[i].AddOnly {
					read, found = found[0], found[1:]
				}
				results[i] = added(items[i], c, request.reply(n), read, err)
			}
		})
	return results
}

// added returns the result for one item. If its value was read, the item is there, whatever became
// of the reply to add.
func added(want locking.Item, c *conn, add *reply, found *item, err error) locking.Added {
	result := locking.Added{Err: changed(add, err)}
	switch {
	case found == nil:
	case result.Err == nil && bytes.Equal(found.value, want.Value):
		result.Version = locking.Version{Connection: c.id, Number: found.version}
	case errors.Is(result.Err, locking.ErrNotStored):
		result.Found = found.value
	}
	return result
}

// Get implements locking.Backend.
func (b *Backend) Get(ctx context.Context, keys ...string) (map[string][]byte, error) {
	values := make(map[string][]byte, len(keys))
	var problem error
	var mu sync.Mutex
	done := func(found []foundItem, err error) {
		mu.Lock()
		defer mu.Unlock()
		problem = errors.Join(problem, err)
		for _, f := range found {
			values[f.key] = f.value
		}
	}
	b.eachServer(len(keys), func(i int) string { return keys[i] },
		func(i int) error { return locking.CheckKey(keys[i]) },
		func(_ int, err error) { done(nil, err) },
		func(l *link, mine []int) {
			some := make([]string, len(mine))
			for n, i := range mine {
				some[n] = keys[i]
			}
			done(l.read(ctx, some))
		})
	if problem != nil {
		return nil, problem
	}
	return values, nil
}

// foundItem is an item, and the connection on which it was read.
type foundItem struct {
	item
	conn *conn
}

// read reads the items of the keys that exist. If the connection breaks it reads again, once.
func (l *link) read(ctx context.Context, keys []string) ([]foundItem, error) {
	for again := true; ; again = false {
		request := l.owner.newCall(1)
		for some := range slices.Chunk(keys, maxKeys) {
			request.gets(some, nil)
		}
		c, err := l.do(ctx, request)
		switch {
		case again && isBroken(err):
			continue
		case err != nil && !errors.Is(err, locking.ErrUnavailable):
			return nil, unavailable(err)
		case err != nil:
			return nil, err
		}
		found := make([]foundItem, 0, len(keys))
		for _, r := range request.replies {
			if r.kind == replyRefused {
				return nil, r.err
			}
			for _, it := range r.items.found {
				found = append(found, foundItem{it, c})
			}
		}
		return found, nil
	}
}

// Renew implements locking.Backend. A full server (-M) refuses it with locking.ErrFull.
func (b *Backend) Renew(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	return b.changeOne(ctx, &change{key: key, value: value, with: value, lifetime: seconds(ttl)})
}

// Delete implements locking.Backend.
func (b *Backend) Delete(ctx context.Context, key string, value []byte) error {
	return b.changeOne(ctx, &change{key: key, value: value, lifetime: remove})
}

func (b *Backend) changeOne(ctx context.Context, c *change) error {
	b.changeAll(ctx, []*change{c})
	return c.err
}

// DeleteAll implements locking.Backend.
func (b *Backend) DeleteAll(ctx context.Context, items []locking.Item) []error {
	room, changes := make([]change, len(items)), make([]*change, len(items))
	for i, it := range items {
		room[i] = change{key: it.Key, value: it.Value, lifetime: remove, version: it.Version}
		changes[i] = &room[i]
	}
	b.changeAll(ctx, changes)
	errs := make([]error, len(items))
	for i, c := range changes {
		errs[i] = c.err
	}
	return errs
}

// changeAll makes the changes, on all servers at the same time.
func (b *Backend) changeAll(ctx context.Context, changes []*change) {
	if len(changes) == 1 { // most locks have one name
		c := changes[0]
		if err := locking.CheckKey(c.key); err != nil {
			c.finish(err)
			return
		}
		b.link(c.key).changeAll(ctx, changes)
		return
	}
	b.eachServer(len(changes), func(i int) string { return changes[i].key },
		func(i int) error { return locking.CheckKey(changes[i].key) },
		func(i int, err error) { changes[i].finish(err) },
		func(l *link, mine []int) {
			some := make([]*change, len(mine))
			for n, i := range mine {
				some[n] = changes[i]
			}
			l.changeAll(ctx, some)
		})
}
