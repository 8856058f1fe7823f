package locking

import (
	"context"
	"errors"
	"time"
)

// A backend's own errors become these in its adapter; Locker acts on nothing else.
var (
	// ErrNotStored says that the key exists: Add changed nothing.
	ErrNotStored = errors.New("key is held")
	// ErrUnavailable says that the backend could not be asked, and that
	// nothing was changed.
	ErrUnavailable = errors.New("lock backend is unavailable")
	// ErrUnclear says that the operation may or may not have taken, or may
	// still take, effect: the reply was lost.
	ErrUnclear = errors.New("outcome is unclear: the reply was lost")
	// ErrMissing says that the key was not there.
	ErrMissing = errors.New("key is gone")
	// ErrNotOwner says that the key holds another value.
	ErrNotOwner = errors.New("key is held by another")
	// ErrFull says that the backend has no room for another key.
	ErrFull = errors.New("lock backend is full")
	// ErrTooLarge says that a value is larger than a backend takes:
	// MaxValueBytes, or less where its server is set so.
	ErrTooLarge = errors.New("value is too large")
)

// Backend is a key-value store with expiry, as small as a lock needs it. Keys
// are 1 to 250 bytes without spaces and control characters; values have at most
// MaxValueBytes. Lifetimes are whole seconds; an item may vanish up to two
// seconds early, or at any time when the backend loses its memory. All methods
// may be called concurrently and return when ctx ends, at the latest after the
// backend's own timeout.
type Backend interface {
	// Server names the server that has the key. It asks nobody. Keys of one server
	// are found or not found together.
	Server(key string) string
	// Add stores value under key for ttl if the key is free. It returns
	// ErrNotStored when it isn't, ErrFull, ErrTooLarge, ErrUnavailable or
	// ErrUnclear.
	Add(ctx context.Context, key string, value []byte, ttl time.Duration) error
	// Get returns the values of those keys that exist. It returns
	// ErrUnavailable when it could not look.
	Get(ctx context.Context, keys ...string) (map[string][]byte, error)
	// Renew gives the key another ttl if it holds exactly value. It returns
	// ErrMissing, ErrNotOwner, ErrFull, ErrUnavailable or ErrUnclear.
	Renew(ctx context.Context, key string, value []byte, ttl time.Duration) error
	// Delete removes the key if it holds exactly value. It returns
	// ErrMissing, ErrNotOwner, ErrUnavailable or ErrUnclear.
	Delete(ctx context.Context, key string, value []byte) error
	// DeleteAll is Delete for each of keys with the value at its place, in
	// this order, in as few requests as the backend can. It returns an error
	// or nil for each.
	DeleteAll(ctx context.Context, keys []string, values [][]byte) []error
}
