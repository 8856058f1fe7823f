package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestBatchGathersWhatComesWhileOneIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		entered, goOn := make(chan []int), make(chan struct{})
		b := newBatcher(func(_ context.Context, questions []int) ([]int, error) {
			entered <- questions
			<-goOn
			return questions, nil
		})
		var all sync.WaitGroup
		all.Go(func() { b.run(ctx) })
		ask := func(n int) {
			all.Go(func() {
				if got, err := b.do(t.Context(), n, false); got != n || err != nil {
					t.Errorf("%d was answered %d, %v", n, got, err)
				}
			})
		}
		ask(0)
		<-entered
		for n := 1; n <= 5; n++ {
			ask(n)
		}
		synctest.Wait() // all five wait
		goOn <- struct{}{}
		second := slices.Clone(<-entered)
		slices.Sort(second)
		if !slices.Equal(second, []int{1, 2, 3, 4, 5}) {
			t.Errorf("second batch %v", second)
		}
		goOn <- struct{}{}
		synctest.Wait()
		cancel()
		all.Wait()
	})
}

func TestRefusedBatchIsSplitSoThatABadRowFailsAlone(t *testing.T) {
	bad := errors.New("refused")
	b := newBatcher(func(_ context.Context, questions []int) ([]string, error) {
		if slices.Contains(questions, 3) {
			return nil, bad
		}
		answers := make([]string, len(questions))
		for i, q := range questions {
			answers[i] = fmt.Sprint(q)
		}
		return answers, nil
	})
	var calls []batchCall[int, string]
	var answers []chan batchAnswer[string]
	for n := range 8 {
		answer := make(chan batchAnswer[string], 1)
		calls, answers = append(calls, batchCall[int, string]{n, answer}), append(answers, answer)
	}
	b.answer(t.Context(), calls)
	for n, answer := range answers {
		got := <-answer
		if n == 3 && !errors.Is(got.err, bad) || n != 3 && (got.err != nil || got.answer != fmt.Sprint(n)) {
			t.Errorf("%d: %+v", n, got)
		}
	}
}

// holding answers as a store does whose row for one question is held: after the
// store's patience of a second.
func holding(held func(question int) bool) func(context.Context, []int) ([]int, error) {
	return func(_ context.Context, questions []int) ([]int, error) {
		if slices.ContainsFunc(questions, held) {
			time.Sleep(time.Second)
			return nil, fmt.Errorf("start: %w", ErrRowHeld)
		}
		return questions, nil
	}
}

func TestHeldRowFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBatcher(holding(func(q int) bool { return q == 3 }))
		calls, answers := asked(8)
		b.answer(t.Context(), calls)
		for n, answer := range answers {
			if got := <-answer; n == 3 && !errors.Is(got.err, ErrRowHeld) || n != 3 && (got.err != nil || got.answer != n) {
				t.Errorf("%d: %+v", n, got)
			}
		}
	})
}

func TestRowThatAllNeedIsNotAskedForByEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBatcher(holding(func(int) bool { return true }))
		calls, answers := asked(MaxBatch)
		begun := time.Now()
		b.answer(t.Context(), calls)
		for n, answer := range answers {
			if got := <-answer; !errors.Is(got.err, ErrRowHeld) {
				t.Fatalf("%d: %+v", n, got)
			}
		}
		if took := time.Since(begun); took > 2*batchTimeout+time.Second {
			t.Errorf("%d calls that need one held row took %s", MaxBatch, took)
		}
	})
}

func TestQuestionsApartHoldUpNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := newBatcher(holding(func(q int) bool { return q == 3 }))
		var all sync.WaitGroup
		all.Go(func() { b.run(ctx) })
		held := make(chan error, 1)
		go func() {
			_, err := b.do(t.Context(), 3, true)
			held <- err
		}()
		synctest.Wait()
		begun := time.Now()
		if _, err := b.do(t.Context(), 1, false); err != nil || time.Since(begun) > 0 {
			t.Errorf("answered after %s, %v", time.Since(begun), err)
		}
		if err := <-held; !errors.Is(err, ErrRowHeld) {
			t.Error(err)
		}
		cancel()
		all.Wait()
	})
}

// asked returns n calls and their answers.
func asked(n int) (calls []batchCall[int, int], answers []chan batchAnswer[int]) {
	for question := range n {
		answer := make(chan batchAnswer[int], 1)
		calls, answers = append(calls, batchCall[int, int]{question, answer}), append(answers, answer)
	}
	return calls, answers
}

func TestUnavailableStoreIsAskedOnceForABatch(t *testing.T) {
	asked := 0
	b := newBatcher(func(context.Context, []int) ([]int, error) {
		asked++
		return nil, fmt.Errorf("start: %w", ErrUnavailable)
	})
	answer := make(chan batchAnswer[int], 4)
	b.answer(t.Context(), []batchCall[int, int]{{1, answer}, {2, answer}, {3, answer}, {4, answer}})
	for range 4 {
		if got := <-answer; !errors.Is(got.err, ErrUnavailable) {
			t.Errorf("%+v", got)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}
