package jobs

import (
	"context"
	"errors"
	"time"
)

// batchTimeout bounds one call of the store.
const batchTimeout = 5 * time.Second

// batcher gathers what many firings ask of the store at the same moment into
// few calls: while one is under way, the next batch gathers.
type batcher[Q, A any] struct {
	calls chan batchCall[Q, A]
	send  func(ctx context.Context, questions []Q) ([]A, error)
}

type batchCall[Q, A any] struct {
	question Q
	answer   chan<- batchAnswer[A] // buffered: the batcher never waits for a caller
}

type batchAnswer[A any] struct {
	answer A
	err    error
}

func newBatcher[Q, A any](send func(context.Context, []Q) ([]A, error)) *batcher[Q, A] {
	return &batcher[Q, A]{calls: make(chan batchCall[Q, A], MaxBatch), send: send}
}

// do asks one question and waits for its answer, or for ctx.
func (b *batcher[Q, A]) do(ctx context.Context, question Q) (A, error) {
	answer := make(chan batchAnswer[A], 1)
	var none A
	select {
	case b.calls <- batchCall[Q, A]{question, answer}:
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
	select {
	case a := <-answer:
		return a.answer, a.err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

// run answers calls until ctx ends. Nobody may be waiting in do by then.
func (b *batcher[Q, A]) run(ctx context.Context) {
	for {
		select {
		case first := <-b.calls:
			b.answer(ctx, b.gather(first))
		case <-ctx.Done():
			return
		}
	}
}

func (b *batcher[Q, A]) gather(first batchCall[Q, A]) []batchCall[Q, A] {
	calls := []batchCall[Q, A]{first}
	for len(calls) < MaxBatch {
		select {
		case next := <-b.calls:
			calls = append(calls, next)
		default:
			return calls
		}
	}
	return calls
}

// answer sends the calls as one batch. One that the store refuses is split,
// so that a bad row fails alone; when the store can't be asked there is no
// point in asking it again for each.
func (b *batcher[Q, A]) answer(ctx context.Context, calls []batchCall[Q, A]) {
	questions := make([]Q, len(calls))
	for i, c := range calls {
		questions[i] = c.question
	}
	bounded, cancel := context.WithTimeout(ctx, batchTimeout)
	answers, err := b.send(bounded, questions)
	cancel()
	if err != nil && len(calls) > 1 && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrSessionLost) {
		half := len(calls) / 2
		b.answer(ctx, calls[:half])
		b.answer(ctx, calls[half:])
		return
	}
	for i, c := range calls {
		if err != nil {
			c.answer <- batchAnswer[A]{err: err}
			continue
		}
		c.answer <- batchAnswer[A]{answer: answers[i]}
	}
}
