package lockhistory

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

// Locker records the calls and answers of a locking.Locker.
type Locker struct {
	recorder *Recorder
	locker   *locking.Locker
}

// Locker returns l with a record of its calls.
func (r *Recorder) Locker(l *locking.Locker) *Locker { return &Locker{r, l} }

// TryAcquire calls locking.Locker.TryAcquire.
func (l *Locker) TryAcquire(ctx context.Context, owner locking.Owner,
	requests []locking.Request) (*Held, error) {
	return l.acquire(requests, func() (*locking.Lock, error) {
		return l.locker.TryAcquire(ctx, owner, requests)
	})
}

// Acquire calls locking.Locker.Acquire.
func (l *Locker) Acquire(ctx context.Context, owner locking.Owner, requests []locking.Request,
	policy retry.Policy) (*Held, error) {
	return l.acquire(requests, func() (*locking.Lock, error) {
		return l.locker.Acquire(ctx, owner, requests, policy)
	})
}

func (l *Locker) acquire(requests []locking.Request,
	ask func() (*locking.Lock, error)) (*Held, error) {
	r := l.recorder
	id := r.newLock()
	asked := Event{At: Now(), Kind: Acquire, Lock: id}
	for _, request := range requests {
		asked.Requests = append(asked.Requests, Request{request})
	}
	r.record(asked)
	lock, err := ask()
	answer := Event{At: Now(), Kind: Granted, Lock: id}
	switch {
	case errors.Is(err, locking.ErrHeld):
		answer.Kind, answer.Text = Refused, err.Error()
	case err != nil:
		answer.Kind, answer.Text = AcquireUnclear, err.Error()
	default:
		known := r.takeUp(lock.Token())
		answer.Token, answer.Session, answer.From = lock.Token(), known.session, known.from
	}
	r.record(answer)
	if err != nil {
		return nil, err
	}
	recorded := &Held{Lock: lock, ID: id, recorder: r}
	context.AfterFunc(lock.Context(), recorded.ended)
	return recorded, nil
}

// Held is a locking.Lock with a record of its calls.
type Held struct {
	*locking.Lock
	ID string // of the lock in the history

	recorder *Recorder
	commits  atomic.Int64
}

// ended records a loss.
func (k *Held) ended() {
	at, cause := Now(), context.Cause(k.Context())
	if !errors.Is(cause, locking.ErrReleased) {
		k.recorder.record(Event{At: at, Kind: Lost, Lock: k.ID, Text: cause.Error()})
	}
}

// Release calls locking.Lock.Release.
func (k *Held) Release(ctx context.Context) error {
	k.recorder.record(Event{At: Now(), Kind: Release, Lock: k.ID})
	err := k.Lock.Release(ctx)
	answer := Event{At: Now(), Kind: Released, Lock: k.ID}
	var lost *locking.LostError
	switch {
	case errors.As(err, &lost):
		answer.Kind, answer.Text = NotHeld, err.Error()
	case err != nil:
		answer.Kind, answer.Text = ReleaseUnclear, err.Error()
	}
	k.recorder.record(answer)
	return err
}

// Commit records one fenced transaction of the lock, which write performs. The transaction must
// insert its number, from 1, and the ID of the lock into the ledger. write returns nil if it
// committed, and an error that wraps locking.ErrSuperseded if the fence refused it. Commit may be
// called after the end of the lock, to test the fence.
func (k *Held) Commit(write func(number int) error) error {
	number := int(k.commits.Add(1))
	k.recorder.record(Event{At: Now(), Kind: Commit, Lock: k.ID, Number: number})
	err := write(number)
	answer := Event{At: Now(), Kind: Committed, Lock: k.ID, Number: number}
	switch {
	case errors.Is(err, locking.ErrSuperseded):
		answer.Kind, answer.Text = Superseded, err.Error()
	case err != nil:
		answer.Kind, answer.Text = CommitUnclear, err.Error()
	}
	k.recorder.record(answer)
	return err
}
