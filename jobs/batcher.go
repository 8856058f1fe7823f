package jobs

import (
	"context"
	"errors"
	"sync"
	"time"
)

// batchTimeout bounds one call of the store.
const batchTimeout = 5 * time.Second

// batcher gathers what many firings ask of the store at the same moment into
// few calls: while one is under way, the next batch gathers.
type batcher[Q, A any] struct {
	calls chan batchCall[Q, A]
	apart chan batchCall[Q, A] // of those that would hold up others
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
	return &batcher[Q, A]{calls: make(chan batchCall[Q, A], MaxBatch), apart: make(chan batchCall[Q, A], MaxBatch), send: send}
}

// do asks one question and waits for its answer, or for ctx. A question that
// was answered with ErrRowHeld is to be asked apart the next time, in batches of
// such questions only: each may take as long again.
func (b *batcher[Q, A]) do(ctx context.Context, question Q, apart bool) (A, error) {
	answer := make(chan batchAnswer[A], 1)
	lane := b.calls
	if apart {
		lane = b.apart
	}
	var none A
	select {
	case lane <- batchCall[Q, A]{question, answer}:
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
	var lanes sync.WaitGroup
	for _, lane := range []chan batchCall[Q, A]{b.calls, b.apart} {
		lanes.Go(func() { b.serve(ctx, lane) })
	}
	lanes.Wait()
}

func (b *batcher[Q, A]) serve(ctx context.Context, lane <-chan batchCall[Q, A]) {
	for {
		select {
		case first := <-lane:
			b.answer(ctx, gather(first, lane))
		case <-ctx.Done():
			return
		}
	}
}

func gather[C any](first C, lane <-chan C) []C {
	calls := []C{first}
	for len(calls) < MaxBatch {
		select {
		case next := <-lane:
			calls = append(calls, next)
		default:
			return calls
		}
	}
	return calls
}

// answer sends the calls as one batch, and in halves what of it the store
// refuses or finds a row held for, so that a bad row or a held one fails alone.
// A held row takes the store's patience each time it is asked for: halves are
// sent before quarters, so that most are soon free of it, and after a while no
// more is split. When the store can't be asked at all there is no point in
// asking it again for each.
func (b *batcher[Q, A]) answer(ctx context.Context, calls []batchCall[Q, A]) {
	begun := time.Now()
	parts := [][]batchCall[Q, A]{calls}
	for len(parts) > 0 {
		part := parts[0]
		parts = parts[1:]
		answers, err := b.ask(ctx, part)
		if len(part) > 1 && worthSplitting(err, time.Since(begun)) {
			half := len(part) / 2
			parts = append(parts, part[:half], part[half:])
			continue
		}
		for i, c := range part {
			if err != nil {
				c.answer <- batchAnswer[A]{err: err}
				continue
			}
			c.answer <- batchAnswer[A]{answer: answers[i]}
		}
	}
}

func worthSplitting(err error, taken time.Duration) bool {
	if errors.Is(err, ErrRowHeld) {
		return taken < batchTimeout
	}
	return err != nil && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrSessionLost)
}

func (b *batcher[Q, A]) ask(ctx context.Context, calls []batchCall[Q, A]) ([]A, error) {
	questions := make([]Q, len(calls))
	for i, c := range calls {
		questions[i] = c.question
	}
	bounded, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	return b.send(bounded, questions)
}
