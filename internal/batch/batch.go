// Package batch combines the questions of many callers into few calls. While one
// call is under way, the next batch gathers.
package batch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/internal/sleep"
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
	// Linger is how long a batch waits at most for questions that Expect has announced.
	Linger time.Duration
}

// Batch gathers questions and sends them. Its methods may be called concurrently. It
// has a goroutine while there are questions.
type Batch[Q, A any] struct {
	options Options[Q, A]

	mu      sync.Mutex
	waiting []*call[Q, A]
	sending bool
	coming  int           // announced questions
	arrived chan struct{} // closed when there are none; nil if nobody waits for that
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

// Expected announces one question. It may be used concurrently.
type Expected struct{ end func() }

// End says that the question has arrived, or will not come soon. It may be called again.
func (e *Expected) End() {
	if e.end != nil {
		e.end()
	}
}

// Expect announces a question that will soon be asked, with Options.Linger. Questions that begin
// their way at the same time then share a batch, although some arrive later than others.
func (b *Batch[Q, A]) Expect() *Expected {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.coming++
	return &Expected{sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.coming--; b.coming == 0 && b.arrived != nil {
			close(b.arrived)
			b.arrived = nil
		}
	})}
}

// Ask asks one question and waits for its answer or the end of ctx, whose cause it
// then returns. A question that was not sent by then is dropped. The error does not
// say whether it was sent.
func (b *Batch[Q, A]) Ask(ctx context.Context, question Q) (A, error) {
	return b.AskExpected(ctx, question, &Expected{})
}

// AskExpected is Ask for a question that was announced. It ends the announcement.
func (b *Batch[Q, A]) AskExpected(ctx context.Context, question Q,
	expected *Expected) (A, error) {
	defer expected.End()

	var none A
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	c := &call[Q, A]{question, make(chan answer[A], 1)}
	b.add(c)
	expected.End()
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
	for b.await(); ; b.await() {
		calls := b.gather()
		if len(calls) == 0 {
			return
		}
		b.send(calls)
	}
}

// await waits for the announced questions, at most for Options.Linger.
func (b *Batch[Q, A]) await() {
	arrived := b.allArrived()
	if arrived == nil {
		return
	}
	timer := sleep.Timer(b.options.Linger)
	defer timer.Stop()
	select {
	case <-arrived:
	case <-timer.C:
	}
}

// allArrived returns a channel that is closed when no announced question is missing, or nil if the
// next batch need not wait.
func (b *Batch[Q, A]) allArrived() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.options.Linger <= 0 || b.coming == 0 || len(b.waiting) == 0 {
		return nil
	}
	if b.arrived == nil {
		b.arrived = make(chan struct{})
	}
	return b.arrived
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
