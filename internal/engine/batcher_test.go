package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// holding simulates a store in which one question waits for a row lock: it fails after a second.
func holding(held func(question int) bool) func(context.Context, []int) ([]int, error) {
	return func(_ context.Context, questions []int) ([]int, error) {
		if slices.ContainsFunc(questions, held) {
			time.Sleep(time.Second)
			return nil, fmt.Errorf("start: %w", storage.ErrRowHeld)
		}
		return questions, nil
	}
}

const testPace = 10 * time.Millisecond

// askAll asks question 0 alone, then questions 1 to n in one batch. It returns the errors of the
// batch.
func askAll(t *testing.T, l *batcher[int, int], n int) []error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for q := range n + 1 {
		all.Go(func() {
			got, err := l.ask(t.Context(), q, false)
			if err == nil && got != q {
				t.Errorf("%d was answered %d", q, got)
			}
			if q > 0 {
				errs[q-1] = err
			}
		})
		if q == 0 {
			synctest.Wait() // the call of question 0 is under way
		}
	}
	all.Wait()
	return errs
}

// slowly delays question 0, so that the other questions form one batch.
func slowly(send func(context.Context, []int) ([]int, error)) func(context.Context,
	[]int) ([]int, error) {
	return func(ctx context.Context, questions []int) ([]int, error) {
		if questions[0] == 0 {
			time.Sleep(time.Millisecond)
			return questions, nil
		}
		return send(ctx, questions)
	}
}

func TestLockedRowFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		third := slowly(holding(func(q int) bool { return q == 3 }))
		for i, err := range askAll(t, newBatcher(third, testPace), 8) {
			if held := i+1 == 3; held != errors.Is(err, storage.ErrRowHeld) || !held && err != nil {
				t.Errorf("question %d: got %v, want only question 3 held", i+1, err)
			}
		}
	})
}

func TestBatchWithARowThatAllNeedFailsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		all := holding(func(int) bool { return true })
		for i, err := range askAll(t, newBatcher(slowly(all), testPace), storage.MaxBatch) {
			if !errors.Is(err, storage.ErrRowHeld) {
				t.Fatalf("question %d: got %v, want ErrRowHeld", i+1, err)
			}
		}
		if took := time.Since(start); took > 2*batchTimeout+2*time.Second {
			t.Errorf("%d questions that need one held row took %s", storage.MaxBatch, took)
		}
	})
}

func TestSeparateCallsDoNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newBatcher(holding(func(q int) bool { return q == 3 }), testPace)
		held := make(chan error, 1)
		go func() {
			_, err := l.ask(t.Context(), 3, true)
			held <- err
		}()
		synctest.Wait()
		start := time.Now()
		if _, err := l.ask(t.Context(), 1, false); err != nil || time.Since(start) > 0 {
			t.Errorf("answered after %s, %v", time.Since(start), err)
		}
		if err := <-held; !errors.Is(err, storage.ErrRowHeld) {
			t.Error(err)
		}
	})
}

func TestUnavailableStoreIsCalledOncePerBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		l := newBatcher(slowly(func(context.Context, []int) ([]int, error) {
			asked++
			return nil, fmt.Errorf("start: %w", storage.ErrUnavailable)
		}), testPace)
		for i, err := range askAll(t, l, 9) {
			if !errors.Is(err, storage.ErrUnavailable) {
				t.Errorf("question %d: got %v, want ErrUnavailable", i+1, err)
			}
		}
		if asked != 1 {
			t.Errorf("got %d calls for one batch", asked)
		}
	})
}
