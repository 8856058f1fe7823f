package locking

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Memo computes values once in the cluster. The first caller that asks for a key computes its
// value, and the other callers wait for it. Later callers get the stored value until its TTL ends.
// Its methods may be called concurrently.
//
// The caller that computes holds a lock. Locker.Run must run to renew it: without
// renewals, a computation that takes longer than the lease is lost. When the process
// of the caller dies, another caller takes over after the lock has expired. The lock
// expires at the latest one lease after the process died. The earliest time is two
// thirds of a lease after the death, less two seconds.
//
// Computing once saves work but is not guaranteed. After a restart or an eviction in
// the store, a value may be computed again, or twice at once. Values are never
// mixed: all callers get the value that was stored first, until its TTL ends.
type Memo struct {
	locker  *Locker
	owner   Owner
	flights flights
}

// NewMemo returns a Memo that uses l's backend for its values and locks, and names
// owner in its locks. Memos with one namespace and servers share their values. l
// must not have Options.Restore or Options.Grants.
//
// Values are far larger than locks and fill the memory of their servers. Do not use
// the servers of other locks: give the Memo a Locker with servers of its own.
func NewMemo(l *Locker, owner Owner) (*Memo, error) {
	if l.options.Restore {
		return nil, errors.New("memo: its locker has grants or Options.Restore, expected " +
			"a locker without them")
	}
	return &Memo{locker: l, owner: owner, flights: newFlights()}, nil
}

// Do returns the value of key. It reads the stored value, waits for another
// caller's, or calls compute and stores the result for ttl. The slice belongs to the
// caller.
//
// key is valid UTF-8 of 1 to 1,024 bytes, in which "/" and "%" count three. It has
// no control characters, and is neither "." nor "..". ttl is a second to 30 days,
// cut to whole seconds. memcached may drop a value up to two seconds early. The ttl
// of the caller that computes counts. A value has at most MaxMemoBytes, and may be
// empty.
//
// compute runs in the caller's goroutine. Its context is derived from ctx, and also
// ends when the lock is lost, with a *LostError as its cause. The result is then
// dropped, because another caller may be computing, and Do waits again. compute must
// not ask for the same key.
//
// Callers of one process wait together, and one of them polls the store. A caller
// whose ctx ends returns, and the others continue. If it was the one that computed,
// another caller computes again.
//
// Do returns
//   - compute's error, unchanged. Nothing is stored, and the next waiter
//     computes. A panic of compute also passes on, after the lock is released,
//   - an *UnsharedError when the value was computed here and could not be
//     stored. It has the value and the reason (ErrTooLarge, ErrFull,
//     ErrUnavailable, ErrUnclear),
//   - a *retry.ExhaustedError when ctx ended while another caller computed. It
//     wraps the cause and a *HeldError, which names that caller,
//   - a *LostError when compute was called three times and lost its lock each time,
//   - an error that wraps ErrUnavailable, ErrUnclear or ErrFull when the store
//     failed and nothing was computed. The caller decides whether to compute for
//     itself. All other callers may do the same,
//   - ErrForeignValue, ErrBadName, or an error about ttl.
func (m *Memo) Do(ctx context.Context, key string, ttl time.Duration,
	compute func(context.Context) ([]byte, error)) ([]byte, error) {
	c, err := m.newComputation(key, ttl, compute)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("memo %s: %w", key, context.Cause(ctx))
	}
	f := m.flights.join(key)
	defer m.flights.leave(key, f)
	select {
	case <-f.landed:
		return bytes.Clone(f.value), nil
	case <-f.turn:
	case <-ctx.Done():
		return nil, fmt.Errorf("memo %s: waiting for another caller of this process: %w", key,
			context.Cause(ctx))
	}
	landed := false
	defer func() {
		if !landed { // after an error or a panic the next caller has the turn
			f.turn <- struct{}{}
		}
	}()
	value, err := c.run(ctx)
	if err != nil {
		return nil, err
	}
	landed = true
	m.flights.land(key, f, value)
	return value, nil
}

func (m *Memo) newComputation(key string, ttl time.Duration,
	compute func(context.Context) ([]byte, error)) (*computation, error) {
	if err := checkTTL("memo", key, ttl); err != nil {
		return nil, err
	}
	resource, err := memoResource(key)
	if err != nil {
		return nil, err
	}
	namespace := m.locker.options.Namespace
	return &computation{
		memo: m, name: key, ttl: wholeSeconds(ttl), compute: compute,
		request: Request{Resource: resource, Mode: Exclusive},
		keys: [2]string{keyOf(namespace, memoValueKind+":"+key),
			keyOf(namespace, resource.Key())},
	}, nil
}

const memoValueKind = "value" // the kind of keys that hold values; their locks are of KindMemo

// memoResource returns the resource that is locked while a key's value is computed.
// It has one segment, so that keys are unrelated: computing a/b may ask for a.
func memoResource(key string) (Resource, error) {
	return newResource(KindMemo,
		strings.ReplaceAll(strings.ReplaceAll(key, "%", "%25"), "/", "%2F"))
}

// memoHeader precedes the value. It has the key in full, because the stored key may
// be a hash. No key contains a newline.
func memoHeader(key string) string { return "memo 1 " + key + "\n" }

func encodeMemo(key string, value []byte) ([]byte, error) {
	if len(value) > MaxMemoBytes {
		return nil, fmt.Errorf("%w: found %d bytes, expected at most %d", ErrTooLarge, len(value),
			MaxMemoBytes)
	}
	header := memoHeader(key)
	item := make([]byte, 0, len(header)+len(value))
	return append(append(item, header...), value...), nil
}

func decodeMemo(key string, item []byte) ([]byte, error) {
	value, ours := bytes.CutPrefix(item, []byte(memoHeader(key)))
	if !ours {
		return nil, fmt.Errorf("%w: it begins with %.40q", ErrForeignValue, item)
	}
	return value, nil
}
