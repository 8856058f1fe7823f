// Package batch combines the questions of many callers into few calls. While one
// call is under way, the next batch gathers.
package batch

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Options configure a Batch.
type Options[Q, A any] struct {
	// Send asks all questions in one call. It returns their answers in order, or an
	// error for all. Its context ends after Timeout, not with a caller's.
	Send    func(ctx context.Context, questions []Q) ([]A, error)
	Timeout time.Duration
	Most    int // limit of the weights of one call, unless it has one question
	// Weigh returns the weight of a question; nil means 1 each.
	Weigh func(Q) int
	// Whole reports whether every part of the batch would fail with this error, so
	// long after the batch was first sent. After any other error the batch is split,
	// so that a bad question fails alone.
	Whole func(err error, taken time.Duration) bool
}

// Batch gathers questions and sends them. Its methods may be called concurrently. It
// has a goroutine while there are questions.
type Batch[Q, A any] struct {
	options Options[Q, A]

	mu      sync.Mutex
	waiting []*call[Q, A]
	sending bool
}

type call[Q, A any] struct {
	question Q
	answer   chan answer[A] // buffered, so that a batch never waits for a caller
}

type answer[A any] struct {
	answer A
	err    error
}

// New returns an empty Batch.
func New[Q, A any](o Options[Q, A]) *Batch[Q, A] {
	if o.Weigh == nil {
		o.Weigh = func(Q) int { return 1 }
	}
	return &Batch[Q, A]{options: o}
}

// Ask asks one question and waits for its answer or the end of ctx, whose cause it
// then returns. A question that was not sent by then is dropped. The error does not
// say whether it was sent.
func (b *Batch[Q, A]) Ask(ctx context.Context, question Q) (A, error) {
	var none A
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	c := &call[Q, A]{question, make(chan answer[A], 1)}
	b.add(c)
	select {
	case a := <-c.answer:
		return a.answer, a.err
	case <-ctx.Done():
		b.drop(c)
		return none, context.Cause(ctx)
	}
}

func (b *Batch[Q, A]) add(c *call[Q, A]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, c)
	if !b.sending {
		b.sending = true
		go b.serve()
	}
}

func (b *Batch[Q, A]) drop(c *call[Q, A]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiting, c); i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	}
}

// serve sends batches until no question is waiting.
func (b *Batch[Q, A]) serve() {
	for calls := b.gather(); len(calls) > 0; calls = b.gather() {
		b.send(calls)
	}
}

// gather removes the next batch from the waiting questions. If there is none,
// sending ends.
func (b *Batch[Q, A]) gather() []*call[Q, A] {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, weight := 0, 0
	for _, c := range b.waiting {
		if weight += b.options.Weigh(c.question); n > 0 && weight > b.options.Most {
			break
		}
		n++
	}
	calls := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	b.sending = n > 0
	return calls
}

// send sends the calls as one batch, and splits it in halves after an error of its
// own. Halves are sent before quarters, so that most calls are soon separated from
// one that takes long.
func (b *Batch[Q, A]) send(calls []*call[Q, A]) {
	start := time.Now()
	for parts := [][]*call[Q, A]{calls}; len(parts) > 0; {
		part := parts[0]
		parts = parts[1:]
		answers, err := b.ask(part)
		if err != nil && len(part) > 1 && !b.options.Whole(err, time.Since(start)) {
			half := len(part) / 2
			parts = append(parts, part[:half], part[half:])
			continue
		}
		for i, c := range part {
			if err != nil {
				c.answer <- answer[A]{err: err}
				continue
			}
			c.answer <- answer[A]{answer: answers[i]}
		}
	}
}

func (b *Batch[Q, A]) ask(calls []*call[Q, A]) ([]A, error) {
	questions := make([]Q, len(calls))
	for i, c := range calls {
		questions[i] = c.question
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.options.Timeout)
	defer cancel()
	return b.options.Send(ctx, questions)
}
