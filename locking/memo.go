package locking

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/retry"
)

// Memo computes values once in the cluster and stores them in the key-value store. The first caller
// of a key computes its value, and the others wait for it. Later callers get the stored value until
// its TTL ends. Methods may be called concurrently.
//
// The caller that computes holds an advisory lock, which Locker.Run must renew. If its process
// dies, another caller takes over after at most one lease. If the store loses the value or the
// lock, a value may be computed again, or twice at once. All callers get the value that was stored
// first.
type Memo struct {
	locker  *Locker
	owner   Owner
	flights flights
}

// NewMemo returns a Memo that uses the backend of l, and names owner in its locks. l must not have
// Options.Restore or Options.Grants. Values are far larger than locks, so use other servers for
// them.
func NewMemo(l *Locker, owner Owner) (*Memo, error) {
	if l.options.Restore {
		return nil, errors.New("memo: its locker has grants or Options.Restore, expected " +
			"a locker without them")
	}
	return &Memo{locker: l, owner: owner, flights: newFlights()}, nil
}

// Do returns the value of key. It reads the stored value, waits for the value of another caller, or
// calls compute and stores the result for ttl. The slice belongs to the caller.
//
//   - key is valid UTF-8 of 1 to 1,024 bytes. Each "/" and "%" in it counts as three bytes. It has
//     no control characters, and is neither "." nor "..".
//   - ttl is a second to 30 days, cut to whole seconds. memcached may drop a value up to two
//     seconds early.
//   - A value has at most MaxMemoBytes, and may be empty.
//
// The context of compute also ends when the lock is lost, with a *LostError as its cause. Do then
// drops the result and waits again. compute must not ask for the same key.
//
// Do returns one of these errors:
//   - the error of compute, unchanged. Nothing is stored, and the next waiter computes. A panic of
//     compute passes on.
//   - an *UnsharedError if a caller of this process computed the value, and it could not be stored.
//     All callers of the process that wait for this value get it.
//   - a *retry.ExhaustedError if ctx ended while Do waited for another caller, of this process or
//     another one. It wraps the cause and a *HeldError, which names that caller.
//   - an error that wraps the cause of ctx, if ctx ended before Do found another caller
//   - a *LostError if compute was called three times and lost its lock each time
//   - ErrUnavailable, ErrUnclear or ErrFull if the store failed and nothing was computed. The
//     caller may compute for itself.
//   - ErrForeignValue, ErrBadName, or an error about ttl
func (m *Memo) Do(ctx context.Context, key string, ttl time.Duration,
	compute func(context.Context) ([]byte, error)) ([]byte, error) {
	c, err := m.newComputation(key, ttl, compute)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("memo %s: %w", key, context.Cause(ctx))
	}
	began := time.Now()
	f := m.flights.join(key)
	defer m.flights.leave(key, f)
	select {
	case <-f.landed:
		return f.result()
	case <-f.turn:
	case <-ctx.Done():
		caller := Holder{Owner: m.owner.cleaned()}
		return nil, &retry.ExhaustedError{
			Cause: &HeldError{Resource: c.request.Resource, Holder: caller},
			End:   context.Cause(ctx), Attempts: 1, Waited: time.Since(began)}
	}
	landed := false
	defer func() {
		if !landed { // after an error or a panic the next caller has the turn
			f.turn <- struct{}{}
		}
	}()
	value, err := c.run(ctx)
	if err != nil && c.unstored == nil {
		return nil, err
	}
	landed = true
	m.flights.land(key, f, value, c.unstored)
	return value, err
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
