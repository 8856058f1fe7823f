package engine

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/internal/batch"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// batchTimeout bounds one call of the store.
const batchTimeout = 5 * time.Second

// batcher collects concurrent calls of the store into batches. First calls go into the usual
// batches. Calls that were answered with ErrRowHeld go into batches of their own, because they may
// block for the store's lock timeout again.
type batcher[Q, A any] struct{ usual, apart *batch.Batch[Q, A] }

func newBatcher[Q, A any](send func(context.Context, []Q) ([]A, error)) *batcher[Q, A] {
	return newWeighedBatcher(send, storage.MaxBatch, nil)
}

// newWeighedBatcher returns a batcher whose batches weigh at most most, by weigh.
func newWeighedBatcher[Q, A any](send func(context.Context, []Q) ([]A, error), most int,
	weigh func(Q) int) *batcher[Q, A] {
	o := batch.Options[Q, A]{Send: send, Timeout: batchTimeout, Most: most, Weigh: weigh,
		Whole: meetsAll}
	return &batcher[Q, A]{usual: batch.New(o), apart: batch.New(o)}
}

// meetsAll reports whether the error concerns the whole batch, so that splitting it is useless.
// Each call that meets a held row takes the store's lock timeout, so splitting stops after a while.
func meetsAll(err error, taken time.Duration) bool {
	if errors.Is(err, storage.ErrRowHeld) {
		return taken >= batchTimeout
	}
	return errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrSessionLost)
}

// ask sends one call and waits for its answer, or for ctx. A call that was answered with ErrRowHeld
// must be sent with apart the next time.
func (l *batcher[Q, A]) ask(ctx context.Context, question Q, apart bool) (A, error) {
	if apart {
		return l.apart.Ask(ctx, question)
	}
	return l.usual.Ask(ctx, question)
}
