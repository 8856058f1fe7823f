package locking

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-dev/holdfast/internal/plural"
	"github.com/holdfast-dev/holdfast/retry"
)

const (
	maxTurns     = 3               // of compute in one call; each of them lost its lock
	storeTimeout = 3 * time.Second // for storing a value, with its reads after lost replies
)

// polling returns the policy for waiting for another caller's value. The interval
// shrinks from 200 ms to 50 ms. Only ctx limits the wait.
func polling() retry.Policy {
	return retry.Policy{Attempts: math.MaxInt, Backoff: retry.ReverseExponential,
		MaxDelay: 250 * time.Millisecond, Jitter: 0.5}
}

// computation is a call of Memo.Do that waits and computes for all callers of its process.
type computation struct {
	memo    *Memo
	name    string
	ttl     time.Duration
	compute func(context.Context) ([]byte, error)
	request Request
	keys    [2]string // of the value and of the lock

	blocker *HeldError // the last caller seen computing, or nil
	begun   int        // calls of compute
	again   bool       // another try may succeed
	// unstored is the result if the value was computed and could not be stored, or nil. compute may
	// itself return such an error of another memo.
	unstored *UnsharedError
}

// run returns the value, computed here or by another caller.
func (c *computation) run(ctx context.Context) (value []byte, err error) {
	err = retry.Do(ctx, polling(), func(ctx context.Context) (err error) {
		c.again = false
		value, err = c.try(ctx)
		return err
	}, retry.If(func(error) bool { return c.again }))
	return value, err
}

// try reads the value once, and computes it if no other caller does.
func (c *computation) try(ctx context.Context) ([]byte, error) {
	value, err := c.look(ctx)
	if !errors.Is(err, ErrMissing) {
		return value, c.judge(ctx, err)
	}
	lock, err := c.memo.locker.TryAcquire(ctx, c.memo.owner, []Request{c.request})
	if err != nil {
		return nil, c.judge(ctx, err)
	}
	defer c.release(ctx, lock)
	// The lock's previous holder may have stored the value since the read.
	if value, err = c.read(ctx); !errors.Is(err, ErrMissing) {
		return value, c.judge(ctx, err)
	}
	return c.take(ctx, lock)
}

// look returns the value, a *HeldError while another caller computes it, or
// ErrMissing. Before the first conflict it does not read the lock, because most
// values exist already.
func (c *computation) look(ctx context.Context) ([]byte, error) {
	if c.blocker == nil {
		return c.read(ctx)
	}
	found, err := c.memo.locker.backend.Get(ctx, c.keys[:]...)
	if err != nil {
		return nil, err
	}
	if item, exists := found[c.keys[0]]; exists {
		return decodeMemo(c.name, item)
	}
	lockValue, exists := found[c.keys[1]]
	if !exists {
		return nil, ErrMissing
	}
	holder, stray := c.memo.locker.read(c.request.Resource, lockValue)
	if stray {
		return nil, ErrMissing
	}
	return nil, &HeldError{Resource: c.request.Resource, Holder: holder}
}

// read returns the value, or ErrMissing.
func (c *computation) read(ctx context.Context) ([]byte, error) {
	found, err := c.memo.locker.backend.Get(ctx, c.keys[0])
	if err != nil {
		return nil, err
	}
	item, exists := found[c.keys[0]]
	if !exists {
		return nil, ErrMissing
	}
	return decodeMemo(c.name, item)
}

// judge returns the error for the caller, and sets again if the call should wait. A
// request that ctx cut short does not count as unavailable.
func (c *computation) judge(ctx context.Context, err error) error {
	var held *HeldError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &held):
		c.blocker, c.again = held, true
		return held
	case ctx.Err() != nil && c.blocker != nil:
		c.again = true // retry.Do adds that ctx ended
		return c.blocker
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return fmt.Errorf("memo %s: %w", c.name, err)
}

// take computes the value under the lock and stores it.
func (c *computation) take(ctx context.Context, lock *Lock) ([]byte, error) {
	c.begun++
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(lock.Context(), func() { end(context.Cause(lock.Context())) })()
	value, err := c.compute(ctx)
	if lost := lock.untrusted(); lost != nil {
		return nil, c.lose(lost)
	}
	if err != nil {
		return nil, err
	}
	return c.store(ctx, lock, value)
}

// store stores the computed value, and returns the value that is stored in the end.
// It ignores the end of ctx, because other callers wait. It stores nothing without
// the lock, because a later value may have come and gone.
func (c *computation) store(ctx context.Context, lock *Lock, value []byte) ([]byte, error) {
	item, err := encodeMemo(c.name, value)
	if err != nil {
		return nil, c.unshared(value, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	for range addTries {
		if lost := lock.untrusted(); lost != nil {
			return nil, c.lose(lost)
		}
		err = c.memo.locker.backend.Add(ctx, c.keys[0], item, c.ttl)
		if err == nil {
			return value, nil
		}
		if !errors.Is(err, ErrNotStored) && !errors.Is(err, ErrUnclear) {
			break
		}
		stored, readErr := c.read(ctx)
		if readErr == nil {
			return stored, nil
		}
		if !errors.Is(readErr, ErrMissing) {
			err = fmt.Errorf("%w; %w", err, readErr)
			break
		}
	}
	return nil, c.unshared(value, err)
}

func (c *computation) unshared(value []byte, err error) error {
	c.unstored = &UnsharedError{Key: c.name, Value: value, Err: err}
	return c.unstored
}

// lose has the call wait again, unless maxTurns is reached.
func (c *computation) lose(lost *LostError) error {
	c.again = c.begun < maxTurns
	return fmt.Errorf("memo %s: computed %s: %w", c.name, plural.Of(c.begun, "time", "times"),
		lost)
}

func (c *computation) release(ctx context.Context, lock *Lock) {
	if err := lock.Release(ctx); err != nil {
		c.memo.locker.options.Log.Debug().Err(err).Str("memo", c.name).
			Msg("lock of a value was already gone")
	}
}
