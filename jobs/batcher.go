package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/internal/batch"
)

// batchTimeout bounds one call of the store.
const batchTimeout = 5 * time.Second

// batcher gather what many firings ask of the store at the same moment: one what
// is asked for the first time, the other what was answered with ErrRowHeld, which
// may take the store's patience again and must not hold up the rest.
type batcher[Q, A any] struct{ usual, apart *batch.Batch[Q, A] }

func newBatcher[Q, A any](send func(context.Context, []Q) ([]A, error)) *batcher[Q, A] {
	return newWeighedBatcher(send, MaxBatch, nil)
}

// newWeighedBatcher are lanes whose batches weigh at most so much, by weigh.
func newWeighedBatcher[Q, A any](send func(context.Context, []Q) ([]A, error), most int,
	weigh func(Q) int) *batcher[Q, A] {
	o := batch.Options[Q, A]{Send: send, Timeout: batchTimeout, Most: most, Weigh: weigh,
		Whole: meetsAll}
	return &batcher[Q, A]{usual: batch.New(o), apart: batch.New(o)}
}

// meetsAll reports whether a batch that failed so is not worth splitting. A
// held row takes the store's patience each time it is asked for: after a while
// no more is split.
func meetsAll(err error, taken time.Duration) bool {
	if errors.Is(err, ErrRowHeld) {
		return taken >= batchTimeout
	}
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrSessionLost)
}

// ask asks one question and waits for its answer, or for ctx. One that was
// answered with ErrRowHeld is to be asked apart the next time.
func (l *batcher[Q, A]) ask(ctx context.Context, question Q, apart bool) (A, error) {
	if apart {
		return l.apart.Ask(ctx, question)
	}
	return l.usual.Ask(ctx, question)
}
