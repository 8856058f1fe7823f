package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/batch"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// batchTimeout bounds one call of the store.
const batchTimeout = 5 * time.Second

// batchLinger is how long a batch waits at most for announced calls. When many firings are due at
// the same time, their gates and advisory locks take a few milliseconds.
const batchLinger = 10 * time.Millisecond

// batcher collects concurrent calls of the store into batches. First calls go into the usual
// batches. Calls that were answered with ErrRowHeld go into batches of their own, because they may
// block for the store's lock timeout again.
type batcher[Q, A any] struct{ usual, apart *batch.Batch[Q, A] }

func newBatcher[Q, A any](send func(context.Context, []Q) ([]A, error),
	pace time.Duration) *batcher[Q, A] {
	return newBatcherOf(batch.Options[Q, A]{Send: send, Most: storage.MaxBatch, Pace: pace})
}

// yieldFor is how long the ends of runs wait at most while the replica starts runs.
const yieldFor = 50 * time.Millisecond

// newFinishBatcher returns a batcher of finishes. Its batches wait while starts are under way:
// starts returns a channel that is closed when there is none, or nil.
func newFinishBatcher(send func(context.Context, []storage.FinishRequest) ([]bool, error),
	starts func() <-chan struct{}, pace time.Duration) *batcher[storage.FinishRequest, bool] {
	return newBatcherOf(batch.Options[storage.FinishRequest, bool]{Send: send,
		Most: storage.MaxFinishBytes, Weigh: storage.FinishRequest.Weight,
		Yield: starts, YieldFor: yieldFor, Pace: pace})
}

func newBatcherOf[Q, A any](o batch.Options[Q, A]) *batcher[Q, A] {
	o.Timeout, o.Whole, o.Linger = batchTimeout, meetsAll, batchLinger
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

// askNow is ask for a call that waits for no pace and does not yield.
func (l *batcher[Q, A]) askNow(ctx context.Context, question Q) (A, error) {
	return l.usual.AskNow(ctx, question)
}

// askExpected is ask for a call that expect has announced.
func (l *batcher[Q, A]) askExpected(ctx context.Context, question Q, apart bool,
	expected *batch.Expected) (A, error) {
	if apart {
		expected.End()
		return l.apart.Ask(ctx, question)
	}
	return l.usual.AskExpected(ctx, question, expected)
}

// expect announces a call that will soon be sent, so that a batch waits for it.
func (l *batcher[Q, A]) expect() *batch.Expected { return l.usual.Expect() }

// sessionCall is a call on behalf of a session.
type sessionCall[Q any] struct {
	session  uuid.UUID
	question Q
}

// bySession groups the calls of a batch by session. There are two sessions only for a short time
// after one was lost.
func bySession[Q, A any](send func(context.Context, uuid.UUID, []Q) ([]A, error)) func(
	context.Context, []sessionCall[Q]) ([]A, error) {
	return func(ctx context.Context, calls []sessionCall[Q]) ([]A, error) {
		indexes := make(map[uuid.UUID][]int, 1)
		for i, c := range calls {
			mine, known := indexes[c.session]
			if !known {
				mine = make([]int, 0, len(calls)-i)
			}
			indexes[c.session] = append(mine, i)
		}
		answers := make([]A, len(calls))
		var problems []error
		for session, mine := range indexes {
			questions := make([]Q, len(mine))
			for i, index := range mine {
				questions[i] = calls[index].question
			}
			got, err := send(ctx, session, questions)
			if err != nil {
				problems = append(problems, err)
				continue
			}
			for i, index := range mine {
				answers[index] = got[i]
			}
		}
		if len(indexes) > 1 && len(problems) > 0 {
			// The error of one session does not apply to the other. Each caller asks again, or
			// finds that its session is lost.
			return nil, fmt.Errorf("calls of %d sessions: %w: %v", len(indexes),
				storage.ErrUnavailable,
				errors.Join(problems...))
		}
		return answers, errors.Join(problems...)
	}
}
