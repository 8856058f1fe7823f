package locking

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-dev/holdfast/retry"
)

const (
	maxTurns     = 3               // of one call, each of which lost its lock
	storeTimeout = 3 * time.Second // for a value, with the looks after lost replies
)

// polling is how a call waits for another's value: the longer it has waited,
// the oftener it asks, five to twenty times a second. Only ctx limits it.
func polling() retry.Policy {
	return retry.Policy{Attempts: math.MaxInt, Backoff: retry.ReverseExponential,
		MaxDelay: 250 * time.Millisecond, Jitter: 0.5}
}

// computation is one call of Memo.Do that has the turn of its process.
type computation struct {
	memo    *Memo
	name    string
	ttl     time.Duration
	compute func(context.Context) ([]byte, error)
	request Request
	keys    [2]string // of the value and of the lock

	blocker *HeldError // who was last found computing, or nil
	begun   int        // how often compute was called
	again   bool       // another try may succeed
}

// run returns the value, whoever computed it.
func (c *computation) run(ctx context.Context) (value []byte, err error) {
	err = retry.Do(ctx, polling(), func(ctx context.Context) (err error) {
		c.again = false
		value, err = c.try(ctx)
		return err
	}, retry.If(func(error) bool { return c.again }))
	return value, err
}

// try looks once for the value, and computes it if nobody else does.
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
	// Who had the lock before may have stored the value since the look.
	if value, err = c.read(ctx); !errors.Is(err, ErrMissing) {
		return value, c.judge(ctx, err)
	}
	return c.take(ctx, lock)
}

// look returns the value, or a *HeldError while somebody computes it, or
// ErrMissing. Before anybody was met it doesn't ask for the lock: the value is
// there, most times.
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
	advisoryLock, exists := found[c.keys[1]]
	if !exists {
		return nil, ErrMissing
	}
	holder, stray := c.memo.locker.read(c.request.Resource, advisoryLock)
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

// judge says what an error of the store or of the lock is to the caller, and
// whether to wait. A request that ctx cut short is no store that is unavailable.
func (c *computation) judge(ctx context.Context, err error) error {
	var held *HeldError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &held):
		c.blocker, c.again = held, true
		return held
	case ctx.Err() != nil && c.blocker != nil:
		c.again = true // which adds that ctx ended
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

// store stores the value that was computed and returns the one that stands. It
// goes on when ctx has ended: others wait. Nothing is stored without the lock:
// by then a later value may have come and gone.
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
		sessionLocks, readErr := c.read(ctx)
		if readErr == nil {
			return sessionLocks, nil
		}
		if !errors.Is(readErr, ErrMissing) {
			err = fmt.Errorf("%w; %w", err, readErr)
			break
		}
	}
	return nil, c.unshared(value, err)
}

func (c *computation) unshared(value []byte, err error) error {
	return &UnsharedError{Key: c.name, Value: value, Err: err}
}

// lose has the call wait again, unless its turns are used up.
func (c *computation) lose(lost *LostError) error {
	c.again = c.begun < maxTurns
	return fmt.Errorf("memo %s: begun %d times: %w", c.name, c.begun, lost)
}

func (c *computation) release(ctx context.Context, lock *Lock) {
	if err := lock.Release(ctx); err != nil {
		c.memo.locker.options.Log.Debug().Err(err).Str("memo", c.name).
			Msg("lock of a value was not there to release")
	}
}
