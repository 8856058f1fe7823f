package locking

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
)

// allOrNone returns all advisory locks, or removes those that were added. A conflict counts more
// than the failure of a server.
func (l *Locker) allOrNone(ctx context.Context, additions []addition) ([]held, error) {
	advisory := make([]held, 0, len(additions))
	var failure error
	for _, a := range additions {
		switch {
		case a.err == nil:
			advisory = append(advisory, held{advisoryLock: a.advisoryLock})
		case failure == nil || errors.Is(a.err, ErrHeld) && !errors.Is(failure, ErrHeld):
			failure = a.err
		}
	}
	if failure != nil {
		l.undo(ctx, l.present(advisory))
		return nil, failure
	}
	return advisory, nil
}

// undo removes the advisory locks of a failed attempt. What it cannot remove becomes
// a stray, so it returns no error.
func (l *Locker) undo(ctx context.Context, advisory []advisoryLock) {
	if len(advisory) == 0 {
		return
	}
	if err := l.removeAll(ctx, advisory); err != nil {
		l.options.Log.Debug().Err(err).Msg("advisory locks of a failed attempt not removed")
	}
}

// addition is the result of an attempt to add one advisory lock.
type addition struct {
	advisoryLock
	err error
}

// addEach adds all advisory locks in one request, and settles them.
func (l *Locker) addEach(ctx context.Context, as content, wanted []advisoryLock) []addition {
	additions := l.newAdditions(as, wanted)
	l.settle(ctx, as, additions, l.addItems(ctx, itemsOf(additions)))
	return additions
}

// newAdditions returns the wanted advisory locks with the nonces and the values of one try.
func (l *Locker) newAdditions(as content, wanted []advisoryLock) []addition {
	additions := make([]addition, len(wanted))
	for i, w := range wanted {
		additions[i].advisoryLock = l.newAdvisory(as, w)
	}
	return additions
}

// addItems adds advisory locks in one request.
func (l *Locker) addItems(ctx context.Context, items []Item) []Added {
	if len(items) == 0 {
		return nil
	}
	return l.backend.AddAll(ctx, items, l.options.Lease)
}

func itemsOf(additions []addition) []Item {
	items := make([]Item, len(additions))
	for i, a := range additions {
		items[i] = Item{Key: a.key, Value: a.value}
	}
	return items
}

// settle sets the results of additions after their first request. It tries again with those whose
// keys were free when it looked why they had been refused.
func (l *Locker) settle(ctx context.Context, as content, additions []addition, added []Added) {
	again := l.judgeEach(ctx, additions, added)
	for try := 1; try < addTries && len(again) > 0; try++ {
		next := make([]addition, len(again))
		for n, i := range again {
			next[n].advisoryLock = l.newAdvisory(as, additions[i].advisoryLock)
		}
		left := l.judgeEach(ctx, next, l.addItems(ctx, itemsOf(next)))
		for n, i := range again {
			additions[i] = next[n]
		}
		for n, i := range left {
			left[n] = again[i]
		}
		again = left
	}
}

// judgeEach sets the results of additions after a request. It returns the indexes of those that
// failed and may succeed at another try.
func (l *Locker) judgeEach(ctx context.Context, additions []addition, added []Added) (again []int) {
	var failed []int
	for i := range additions {
		additions[i].version = added[i].Version
		if added[i].Err != nil {
			failed = append(failed, i)
		}
	}
	retry := make([]bool, len(failed))
	var judged sync.WaitGroup // looks at the same time share their requests
	for n, i := range failed {
		judged.Go(func() {
			a := &additions[i]
			retry[n], a.err = l.judge(ctx, a.advisoryLock, added[i])
		})
	}
	judged.Wait()
	for n, i := range failed {
		if retry[n] {
			again = append(again, i)
		}
	}
	return again
}

// judge finds out why an add failed. It returns nil if the advisory lock exists
// after all. Otherwise it returns the error, and whether another try may help.
func (l *Locker) judge(ctx context.Context, e advisoryLock, added Added) (again bool, err error) {
	unclear := errors.Is(added.Err, ErrUnclear)
	if !unclear && !errors.Is(added.Err, ErrNotStored) {
		l.nonces.drop(e.nonce)
		return false, fmt.Errorf("lock of %s: %w", e.resource, added.Err)
	}
	value, exists := added.Found, added.Found != nil
	var lookErr error
	if !exists {
		var found map[string][]byte
		found, lookErr = l.backend.Get(ctx, e.key)
		value, exists = found[e.key]
	}
	if unclear && exists && bytes.Equal(value, e.value) {
		return false, nil
	}
	l.giveUp(e, unclear)
	switch {
	case lookErr != nil && unclear:
		return false, fmt.Errorf("lock of %s: %w", e.resource, added.Err)
	case lookErr != nil:
		return false, &HeldError{Resource: e.resource}
	case !exists && unclear:
		return true, fmt.Errorf("lock of %s: %w", e.resource, added.Err)
	case !exists:
		return true, &HeldError{Resource: e.resource}
	}
	held, orphan := l.read(e.resource, value)
	if orphan {
		return l.removeOrphan(ctx, e.key, value), &HeldError{Resource: e.resource, Holder: held}
	}
	return false, &HeldError{Resource: e.resource, Holder: held}
}

// read returns the holder in an advisory lock's value, and whether the advisory lock
// is an orphan.
func (l *Locker) read(resource Resource, value []byte) (held Holder, orphan bool) {
	c, ok := l.decoded.decode(value, resource.Key())
	if !ok {
		return Holder{}, false
	}
	return c.Holder, l.isOrphan(c)
}

// isOrphan reports whether no live lock owns an advisory lock: it is a stray of this
// Locker, or its session is dead.
func (l *Locker) isOrphan(c content) bool {
	return l.nonces.isStray(c.Nonce) || l.owners.isDead(c.Session)
}

// newAdvisory returns the wanted advisory lock with the nonce and the value of one attempt.
func (l *Locker) newAdvisory(as content, wanted advisoryLock) advisoryLock {
	wanted.nonce = l.nonces.draw()
	as.Nonce, as.Resource = wanted.nonce, wanted.resource.Key()
	wanted.value = as.encode()
	return wanted
}
