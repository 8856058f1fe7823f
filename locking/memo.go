package locking

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Memo has values computed once in the cluster: of all callers that ask for a
// key the first computes its value, the others wait for it, and late ones get
// it until its time ends. Its methods may be called concurrently.
//
// The caller that computes holds a lock, so Locker.Run must run: without it
// nothing renews the lock, and what takes longer than the lease is lost. When
// its process dies, another caller takes over once the lock has run out: the
// lease at most, and at least two thirds of it less two seconds, after the
// death.
//
// Computed once is an economy and no guarantee: a store that forgets, by a
// restart or an eviction, has a value computed again, or twice at once. Values
// are never mixed: the first that is stored is everybody's until its time ends.
type Memo struct {
	locker  *Locker
	owner   Owner
	flights flights
}

// NewMemo returns a Memo whose values and locks are where l's locks are, and
// whose locks say that they are owner's. Memos with one namespace and servers
// share their values. l must stand alone (no Options.Restore). Values are far
// larger than locks, and fill the store that they are in: where others' locks
// matter, give the Memo a Locker on servers of its own.
func NewMemo(l *Locker, owner Owner) (*Memo, error) {
	if l.options.Restore {
		return nil, errors.New("memo: its locker leaves the decision to a second stage, expected " +
			"one that stands alone")
	}
	return &Memo{locker: l, owner: owner, flights: newFlights()}, nil
}

// Do returns the value of key: the one that is stored, or that another caller
// computes, or what compute returns, which is then stored for ttl. The slice is
// the caller's own.
//
// key is free text of 1 to 1,024 bytes, in which "/" and "%" count three: valid
// UTF-8 without control characters, and neither "." nor "..". ttl is a second
// to 30 days, cut to whole seconds; memcached may drop a value up to two
// seconds early. The ttl of the caller that computes counts. A value has at most
// MaxMemoBytes, and may be empty.
//
// compute runs in the caller's goroutine. Its context is ctx, and ends also
// when the lock is lost, with a *LostError as its cause; what it then returns is
// dropped, because another may be computing, and the caller waits again. It must
// not ask for the same key. Callers of one process wait together: one of them
// asks the store. A caller whose ctx ends leaves, and the others go on; if it was
// the one that computed, another begins anew.
//
// Do returns
//   - compute's error, as it is: nothing is stored, and of those that wait the
//     next computes; a panic of compute passes on, too, once the lock is
//     released,
//   - an *UnsharedError when the value was computed here and could not be
//     stored: it holds the value, and says why (ErrTooLarge, ErrFull,
//     ErrUnavailable, ErrUnclear),
//   - a *retry.ExhaustedError when ctx ended while another computed: it wraps the
//     cause and a *HeldError, which says who, and tells how long it waited,
//   - a *LostError when compute was begun three times, and its lock lost each time,
//   - an error that wraps ErrUnavailable, ErrUnclear or ErrFull when the store
//     could not be asked, and nothing was computed: computing for oneself then
//     is the caller's decision, because all the others will do the same,
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
		if !landed { // by an error or a panic: the turn is the next caller's
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

const memoValueKind = "value" // of the keys that hold values; their locks are of KindMemo

// memoResource returns what is locked while a key's value is computed. It has
// one segment, so that it is related to no other: computing a/b may ask for a.
func memoResource(key string) (Resource, error) {
	return newResource(KindMemo,
		strings.ReplaceAll(strings.ReplaceAll(key, "%", "%25"), "/", "%2F"))
}

// memoHeader stands before a value. It has the key in full, because what is
// stored may be under a hash of it, and no key has a line's end.
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
