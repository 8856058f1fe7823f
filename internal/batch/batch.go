// Package batch combines the questions of many callers into few calls. While one
// call is under way, the next batch gathers.
package batch

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
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
	// Pace is the least time between the beginnings of two calls. So questions that come one by
	// one, at a high rate, share calls. AskNow ends the wait.
	Pace time.Duration
	// Yield, if set, returns a channel that is closed when more important work has ended, or nil
	// if there is none. A batch waits for that, at most for YieldFor, and gathers questions
	// meanwhile. AskNow ends the wait.
	Yield    func() <-chan struct{}
	YieldFor time.Duration
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
	idle    chan struct{} // see Idle; nil if nobody waits for it
	urgent  bool          // a waiting question is urgent
	hurried chan struct{} // closed when an urgent question comes; nil if no batch waits for it
	began   time.Time     // the last call
}

// call is a question of a caller. Until done is closed, its batch writes answer and err.
type call[Q, A any] struct {
	question Q
	answer   A
	err      error
	done     chan struct{}
}

// New returns an empty Batch.
func New[Q, A any](o Options[Q, A]) *Batch[Q, A] {
	if o.Weigh == nil {
		o.Weigh = func(Q) int { return 1 }
	}
	return &Batch[Q, A]{options: o}
}

// Expected announces one question. It may be used concurrently.
type Expected struct {
	by    interface{ arrive() } // nil in the zero Expected, which announces nothing
	ended atomic.Bool
}

// End says that the question has arrived, or will not come soon. It may be called again.
func (e *Expected) End() {
	if e.by != nil && !e.ended.Swap(true) {
		e.by.arrive()
	}
}

// Expect announces a question that will soon be asked, with Options.Linger. Questions that begin
// their way at the same time then share a batch, although some arrive later than others.
func (b *Batch[Q, A]) Expect() *Expected {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.coming++
	return &Expected{by: b}
}

// arrive ends the announcement of one question.
func (b *Batch[Q, A]) arrive() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.coming--; b.coming == 0 && b.arrived != nil {
		close(b.arrived)
		b.arrived = nil
	}
	b.noteIdle()
}

// Idle returns a channel that is closed when no question is announced, waiting or asked, or nil if
// there is none now.
func (b *Batch[Q, A]) Idle() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.coming == 0 && !b.sending {
		return nil
	}
	if b.idle == nil {
		b.idle = make(chan struct{})
	}
	return b.idle
}

// noteIdle closes the channel of Idle if there is no question. The caller has locked mu.
func (b *Batch[Q, A]) noteIdle() {
	if b.coming == 0 && !b.sending && b.idle != nil {
		close(b.idle)
		b.idle = nil
	}
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
	return b.ask(ctx, question, expected, false)
}

// AskNow is Ask for a question whose batch does not wait because of Options.Pace and Options.Yield.
func (b *Batch[Q, A]) AskNow(ctx context.Context, question Q) (A, error) {
	return b.ask(ctx, question, &Expected{}, true)
}

func (b *Batch[Q, A]) ask(ctx context.Context, question Q, expected *Expected,
	urgent bool) (A, error) {
	var none A
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	c := &call[Q, A]{question: question, done: make(chan struct{})}
	b.add(c, urgent)
	expected.End()
	select {
	case <-c.done:
		return c.answer, c.err
	case <-ctx.Done():
		b.drop(c)
		return none, context.Cause(ctx)
	}
}

func (b *Batch[Q, A]) add(c *call[Q, A], urgent bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, c)
	if urgent {
		b.urgent = true
		if b.hurried != nil {
			close(b.hurried)
			b.hurried = nil
		}
	}
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
	for b.more() {
		b.await()
		if calls := b.gather(); len(calls) > 0 { // otherwise all were dropped
			b.send(calls)
		}
	}
}

// more reports whether a question is waiting. If there is none, sending ends.
func (b *Batch[Q, A]) more() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sending = len(b.waiting) > 0
	b.noteIdle()
	return b.sending
}

// await waits until the next batch should be sent.
func (b *Batch[Q, A]) await() {
	b.linger()
	b.pace()
	b.yield()
}

// pace waits until Options.Pace after the beginning of the last call, unless a question is urgent.
func (b *Batch[Q, A]) pace() {
	b.mu.Lock()
	left := b.options.Pace - time.Since(b.began)
	b.mu.Unlock()
	if left <= 0 {
		return
	}
	hurried := b.urgency()
	if hurried == nil {
		return
	}
	timer := sleep.Timer(left)
	defer timer.Stop()
	select {
	case <-hurried:
	case <-timer.C:
	}
}

// yield waits for more important work, at most for Options.YieldFor, unless a question is urgent.
func (b *Batch[Q, A]) yield() {
	if b.options.Yield == nil {
		return
	}
	hurried := b.urgency()
	if hurried == nil {
		return
	}
	timer := sleep.Timer(b.options.YieldFor)
	defer timer.Stop()
	for ended := b.options.Yield(); ended != nil; ended = b.options.Yield() {
		select {
		case <-ended:
			runtime.Gosched() // callers that have got their answers may begin more work at once
		case <-hurried:
			return
		case <-timer.C:
			return
		}
	}
}

// urgency returns a channel that is closed when an urgent question comes, or nil if one waits.
func (b *Batch[Q, A]) urgency() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.urgent {
		return nil
	}
	b.hurried = make(chan struct{})
	return b.hurried
}

// linger waits for the announced questions, at most for Options.Linger.
func (b *Batch[Q, A]) linger() {
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

// gather removes the next batch from the waiting questions.
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
	b.urgent = b.urgent && len(b.waiting) > 0
	b.began = time.Now()
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
		answers, err := b.call(part)
		if err != nil && len(part) > 1 && !b.options.Whole(err, time.Since(start)) {
			half := len(part) / 2
			parts = append(parts, part[:half], part[half:])
			continue
		}
		for i, c := range part {
			if c.err = err; err == nil {
				c.answer = answers[i]
			}
			close(c.done)
		}
	}
}

func (b *Batch[Q, A]) call(calls []*call[Q, A]) ([]A, error) {
	questions := make([]Q, len(calls))
	for i, c := range calls {
		questions[i] = c.question
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.options.Timeout)
	defer cancel()
	return b.options.Send(ctx, questions)
}
