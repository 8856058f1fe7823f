package batch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/internal/batch"
)

var errUnavailable = errors.New("store is unavailable")

// gated is a store that answers each call when the test allows it.
type gated struct {
	entered chan []int
	goOn    chan error
}

func newGated() *gated { return &gated{entered: make(chan []int), goOn: make(chan error)} }

func (g *gated) send(_ context.Context, questions []int) ([]int, error) {
	g.entered <- slices.Sorted(slices.Values(questions))
	return questions, <-g.goOn
}

// batch returns a batch of calls to the store for the goroutines of the bubble.
func (g *gated) batch(most int, weigh func(int) int) *batch.Batch[int, int] {
	return batch.New(batch.Options[int, int]{
		Send: g.send, Timeout: time.Minute, Most: most, Weigh: weigh,
		Whole: func(err error, _ time.Duration) bool { return errors.Is(err, errUnavailable) },
	})
}

// asking starts a goroutine for each question, one after the other.
func asking(t *testing.T, all *sync.WaitGroup, b *batch.Batch[int, int], questions ...int) {
	for _, n := range questions {
		all.Go(func() {
			if got, err := b.Ask(t.Context(), n); got != n || err != nil {
				t.Errorf("%d was answered %d, %v", n, got, err)
			}
		})
		synctest.Wait()
	}
}

func (g *gated) expect(t *testing.T, want ...int) {
	t.Helper()
	if got := <-g.entered; !slices.Equal(got, want) {
		t.Errorf("batch %v, want %v", got, want)
	}
}

func TestCallsDuringABatchFormTheNextBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		b := g.batch(1000, nil)
		var all sync.WaitGroup
		asking(t, &all, b, 0)
		g.expect(t, 0)
		asking(t, &all, b, 1, 2, 3, 4, 5)
		g.goOn <- nil
		g.expect(t, 1, 2, 3, 4, 5)
		g.goOn <- nil
		all.Wait()
	})
}

func TestBatchWeightIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		b := g.batch(10, func(q int) int { return q })
		var all sync.WaitGroup
		asking(t, &all, b, 1)
		g.expect(t, 1)
		asking(t, &all, b, 4, 6, 2, 99, 3)
		for _, want := range [][]int{{4, 6}, {2}, {99}, {3}} {
			g.goOn <- nil
			g.expect(t, want...)
		}
		g.goOn <- nil
		all.Wait()
	})
}

func TestCallWithEndedContextIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		b := g.batch(1000, nil)
		var all sync.WaitGroup
		asking(t, &all, b, 0)
		g.expect(t, 0)
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		all.Go(func() {
			if _, err := b.Ask(ctx, 1); !errors.Is(err, stop) {
				t.Errorf("got %v", err)
			}
		})
		synctest.Wait()
		asking(t, &all, b, 2)
		cancel(stop)
		synctest.Wait()
		g.goOn <- nil
		g.expect(t, 2)
		g.goOn <- nil
		all.Wait()
		if _, err := b.Ask(ctx, 3); !errors.Is(err, stop) {
			t.Errorf("asked after the end of its context: %v", err)
		}
	})
}

func TestSentCallReturnsWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		b := g.batch(1000, nil)
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := b.Ask(ctx, 1)
			left <- err
		}()
		g.expect(t, 1)
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		var all sync.WaitGroup
		asking(t, &all, b, 2)
		g.goOn <- nil
		g.expect(t, 2)
		g.goOn <- nil
		all.Wait()
	})
}

func TestCallEndsAfterItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := batch.New(batch.Options[int, int]{
			Send: func(ctx context.Context, _ []int) ([]int, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
			Timeout: 5 * time.Second, Most: 10, Whole: func(error, time.Duration) bool {
				return true
			},
		})
		start := time.Now()
		if _, err := b.Ask(t.Context(), 1); !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(start) != 5*time.Second {
			t.Errorf("got %v after %s", err, time.Since(start))
		}
	})
}

// A call that failed as a whole is made once, because its parts would fail too.
func TestRefusedBatchIsSplit(t *testing.T) {
	for name, refusal := range map[string]error{"a bad question fails alone": errors.New("refused"),
		"but all fail together": fmt.Errorf("start: %w", errUnavailable)} {
		t.Run(name, func(t *testing.T) { testRefusal(t, refusal) })
	}
}

func testRefusal(t *testing.T, refusal error) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		open := make(chan struct{})
		b := batch.New(batch.Options[int, string]{
			Send: func(_ context.Context, questions []int) ([]string, error) {
				<-open
				calls++
				if slices.Contains(questions, 3) {
					return nil, refusal
				}
				answers := make([]string, len(questions))
				for i, q := range questions {
					answers[i] = fmt.Sprint(q)
				}
				return answers, nil
			},
			Timeout: time.Minute, Most: 100, Whole: func(err error, _ time.Duration) bool {
				return errors.Is(err, errUnavailable)
			},
		})
		whole := errors.Is(refusal, errUnavailable)
		var all sync.WaitGroup
		for n := range 9 {
			all.Go(func() {
				got, err := b.Ask(t.Context(), n)
				refused := n == 3 || whole && n > 0
				if refused != errors.Is(err, refusal) || !refused && got != fmt.Sprint(n) {
					t.Errorf("question %d: got %q (%v), want it refused: %t", n, got, err, refused)
				}
			})
			synctest.Wait() // the first is sent alone, the others form one batch
		}
		close(open)
		all.Wait()
		if whole && calls != 2 {
			t.Errorf("%d calls for the first and a batch that failed as a whole", calls)
		}
	})
}

const linger = 10 * time.Millisecond

// announced runs a test in which question 1 is asked while question 2 is announced.
func announced(t *testing.T, then func(g *gated, ask func(int), other *batch.Expected)) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		b := batch.New(batch.Options[int, int]{Send: g.send, Timeout: time.Minute, Most: 1000,
			Linger: linger})
		one, two := b.Expect(), b.Expect()
		var all sync.WaitGroup
		ask := func(n int) {
			expected := map[int]*batch.Expected{1: one, 2: two}[n]
			all.Go(func() {
				if got, err := b.AskExpected(t.Context(), n, expected); got != n || err != nil {
					t.Errorf("%d was answered %d, %v", n, got, err)
				}
			})
			synctest.Wait()
		}
		ask(1)
		then(g, ask, two)
		g.goOn <- nil
		all.Wait()
	})
}

func TestBatchWaitsForAnnouncedQuestions(t *testing.T) {
	announced(t, func(g *gated, ask func(int), _ *batch.Expected) {
		time.Sleep(linger - time.Nanosecond)
		ask(2)
		g.expect(t, 1, 2)
	})
}

func TestBatchWaitsAtMostForItsLinger(t *testing.T) {
	announced(t, func(g *gated, _ func(int), _ *batch.Expected) {
		start := time.Now()
		g.expect(t, 1)
		if waited := time.Since(start); waited != linger {
			t.Errorf("the batch waited for %s, want %s", waited, linger)
		}
	})
}

func TestBatchDoesNotWaitForAQuestionThatWillNotCome(t *testing.T) {
	announced(t, func(g *gated, _ func(int), other *batch.Expected) {
		start := time.Now()
		other.End()
		other.End()
		g.expect(t, 1)
		if waited := time.Since(start); waited != 0 {
			t.Errorf("the batch waited for %s after the end of the announcement", waited)
		}
	})
}

const pace = 10 * time.Millisecond

// The first question is sent at once. The next ones share a call, which begins a pace after the
// first. An urgent question does not wait.
func TestBatchesKeepTheirPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		b := batch.New(batch.Options[int, int]{Send: g.send, Timeout: time.Minute, Most: 1000,
			Pace: pace})
		var all sync.WaitGroup
		start := time.Now()
		expectAt := func(want time.Duration, questions ...int) {
			t.Helper()
			g.expect(t, questions...)
			if at := time.Since(start); at != want {
				t.Errorf("the batch %v was sent after %s, want %s", questions, at, want)
			}
			g.goOn <- nil
		}
		asking(t, &all, b, 1)
		expectAt(0, 1)
		time.Sleep(pace / 4)
		asking(t, &all, b, 2)
		time.Sleep(pace / 4)
		asking(t, &all, b, 3)
		expectAt(pace, 2, 3)
		asking(t, &all, b, 4)
		all.Go(func() {
			if got, err := b.AskNow(t.Context(), 5); got != 5 || err != nil {
				t.Errorf("5 was answered %d, %v", got, err)
			}
		})
		expectAt(pace, 4, 5)
		time.Sleep(pace)
		asking(t, &all, b, 6)
		expectAt(2*pace, 6)
		all.Wait()
	})
}

const yieldFor = 50 * time.Millisecond

// yielding is a test in which question 1 is asked while a more important question is announced.
type yielding struct {
	*gated
	t     *testing.T
	batch *batch.Batch[int, int]
	all   sync.WaitGroup
	end   func() // ends the announcement
	start time.Time
}

// yields runs such a test. When then returns, a call is under way.
func yields(t *testing.T, then func(y *yielding)) {
	synctest.Test(t, func(t *testing.T) {
		y := &yielding{gated: newGated(), t: t, start: time.Now()}
		important := y.gated.batch(1, nil)
		y.end = important.Expect().End
		y.batch = batch.New(batch.Options[int, int]{Send: y.send, Timeout: time.Minute, Most: 1000,
			Yield: important.Idle, YieldFor: yieldFor})
		y.ask(1)
		then(y)
		y.goOn <- nil
		y.all.Wait()
	})
}

func (y *yielding) ask(n int) { asking(y.t, &y.all, y.batch, n) }

// expectAfter fails the test if the next call has other questions or comes at another time.
func (y *yielding) expectAfter(want time.Duration, questions ...int) {
	y.t.Helper()
	y.expect(y.t, questions...)
	if waited := time.Since(y.start); waited != want {
		y.t.Errorf("the batch was sent after %s, want %s", waited, want)
	}
}

func TestBatchYieldsAndGathers(t *testing.T) {
	yields(t, func(y *yielding) {
		y.ask(2)
		time.Sleep(yieldFor / 2)
		y.end()
		y.expectAfter(yieldFor/2, 1, 2)
		y.goOn <- nil
		y.ask(3) // there is nothing to yield to
		y.expectAfter(yieldFor/2, 3)
	})
}

func TestBatchYieldsForALimitedTime(t *testing.T) {
	yields(t, func(y *yielding) { y.expectAfter(yieldFor, 1) })
}

func TestUrgentQuestionEndsTheWaitOfItsBatch(t *testing.T) {
	yields(t, func(y *yielding) {
		y.all.Go(func() {
			if got, err := y.batch.AskNow(y.t.Context(), 2); got != 2 || err != nil {
				y.t.Errorf("2 was answered %d, %v", got, err)
			}
		})
		y.expectAfter(0, 1, 2)
		y.goOn <- nil
		y.ask(3) // the next batch yields again
		y.expectAfter(yieldFor, 3)
	})
}

// A batch is idle while no question is announced, waiting or asked.
func TestBatchReportsWhenItIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		b := g.batch(1000, nil)
		if b.Idle() != nil {
			t.Error("a new batch is busy")
		}
		expected := b.Expect()
		announced := b.Idle()
		isOpen(t, announced)
		var all sync.WaitGroup
		asking(t, &all, b, 1)
		expected.End()
		g.expect(t, 1)
		isOpen(t, announced)
		g.goOn <- nil
		all.Wait()
		<-announced
		if b.Idle() != nil {
			t.Error("a batch without questions is busy")
		}
	})
}

// isOpen fails the test if the channel is nil or closed.
func isOpen(t *testing.T, idle <-chan struct{}) {
	t.Helper()
	select {
	case <-idle:
		t.Error("a batch with questions is idle")
	default:
		if idle == nil {
			t.Error("a batch with questions is idle")
		}
	}
}
