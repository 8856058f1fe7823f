package locking

import (
	"context"
	"errors"
	"time"
)

// The errors of a Backend that Locker distinguishes.
var (
	// ErrNotStored says that the key exists. Add changed nothing.
	ErrNotStored = errors.New("key is held")
	// ErrUnavailable says that the backend did not get the request, or did not reply to a Get. From
	// Grants it says only that there was no reply: the call may have taken effect.
	ErrUnavailable = errors.New("lock backend is unavailable")
	// ErrUnclear says that the reply was lost. The operation has taken effect, may still do so, or
	// never will.
	ErrUnclear = errors.New("outcome is unclear: the reply was lost")
	// ErrMissing says that the key does not exist.
	ErrMissing = errors.New("key is gone")
	// ErrNotOwner says that the key holds another value.
	ErrNotOwner = errors.New("key is held by another")
	// ErrFull says that the backend has no room for another key.
	ErrFull = errors.New("lock backend is full")
	// ErrTooLarge says that a value is larger than MaxValueBytes or the limit of the server.
	ErrTooLarge = errors.New("value is too large")
)

// Backend is a key-value store with expiry.
//
// Keys are those that CheckKey accepts. Values have at most MaxValueBytes. TTLs are whole seconds.
// An item may vanish up to two seconds early, or when the backend loses its memory.
//
// Methods may be called concurrently. They return when ctx ends, or after the backend's own
// timeout.
type Backend interface {
	// Server names the server that has the key. It sends no request.
	Server(key string) string
	// Add stores value under key for ttl if the key is free. It returns ErrNotStored if the key
	// exists, ErrFull, ErrTooLarge, ErrUnavailable or ErrUnclear.
	Add(ctx context.Context, key string, value []byte, ttl time.Duration) error
	// AddAll adds each item like Add, in as few requests as possible. The results have the order of
	// the items.
	AddAll(ctx context.Context, items []Item, ttl time.Duration) []Added
	// Get returns the values of those keys that exist. If one server does not reply, Get returns no
	// values and ErrUnavailable.
	Get(ctx context.Context, keys ...string) (map[string][]byte, error)
	// Renew sets the key's TTL again if the key holds exactly value. It returns ErrMissing,
	// ErrNotOwner, ErrFull, ErrUnavailable or ErrUnclear.
	Renew(ctx context.Context, key string, value []byte, ttl time.Duration) error
	// Delete removes the key if it holds exactly value. It returns ErrMissing, ErrNotOwner,
	// ErrUnavailable or ErrUnclear.
	Delete(ctx context.Context, key string, value []byte) error
	// DeleteAll removes each item like Delete, in this order, in as few requests as possible. It
	// returns an error or nil for each.
	DeleteAll(ctx context.Context, items []Item) []error
}

// Item is a key of a Backend with its value. Callers must not change the value afterwards.
type Item struct {
	Key   string
	Value []byte
	// Version is that of AddAll, or zero. With it, DeleteAll need not read the value.
	Version Version
	// AddOnly is true if no caller removes the item. Then AddAll needs neither its version nor, if
	// the key exists, its value.
	AddOnly bool
}

// Version identifies an item that a Backend has stored, until it is renewed or removed. Zero means
// unknown.
type Version struct{ Connection, Number uint64 }

// Added is the result of AddAll for one item.
type Added struct {
	Err     error   // as Add returns it
	Version Version // of the item if it was added, or zero
	Found   []byte  // with ErrNotStored: the value of the key, or nil if it was not read
}
