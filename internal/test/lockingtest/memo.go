package lockingtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

func memoTests() map[string]func(*testing.T, Fixture) {
	return map[string]func(*testing.T, Fixture){
		"Once":              testMemoOnce,
		"WaitsTogether":     testMemoWaitsTogether,
		"Error":             testMemoError,
		"ErrorAfterWaiting": testMemoErrorAfterWaiting,
		"Panic":             testMemoPanic,
		"CancelledWaiter":   testMemoCancelledWaiter,
		"CancelledComputer": testMemoCancelledComputer,
		"Sizes":             testMemoSizes,
		"Keys":              testMemoKeys,
		"Nested":            testMemoNested,
		"Namespaces":        testMemoNamespaces,
		"TTL":               testMemoTTL,
		"StandsAlone":       testMemoStandsAlone,
	}
}

// source computes values and counts its calls.
type source struct {
	calls   atomic.Int64
	let     chan struct{} // compute waits until it is closed or ctx ends; does not wait if nil
	started chan struct{} // gets an item when compute begins, if there is room
}

func newSource() *source { return &source{started: make(chan struct{}, 64)} }

func newBlockedSource() *source {
	return &source{started: make(chan struct{}, 64), let: make(chan struct{})}
}

// compute returns "value 1" the first time, then "value 2".
func (s *source) compute(ctx context.Context) ([]byte, error) {
	n := s.calls.Add(1)
	s.started <- struct{}{}
	if s.let != nil {
		select {
		case <-s.let:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return fmt.Appendf(nil, "value %d", n), nil
}

func (s *source) check(t *testing.T, want int64) {
	t.Helper()
	if got := s.calls.Load(); got != want {
		t.Errorf("computed %d times, want %d", got, want)
	}
}

func (r *replica) memo(t *testing.T) *locking.Memo {
	t.Helper()
	m, err := locking.NewMemo(r.Locker, r.owner("lists"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// answer is what one call returned.
type answer struct {
	value string
	err   error
}

// askMemo calls Do in the background.
func askMemo(ctx context.Context, m *locking.Memo, key string,
	compute func(context.Context) ([]byte, error)) <-chan answer {
	answers := make(chan answer, 1)
	go func() {
		value, err := m.Do(ctx, key, time.Minute, compute)
		answers <- answer{string(value), err}
	}()
	return answers
}

func checkAnswer(t *testing.T, answers <-chan answer, want string) {
	t.Helper()
	select {
	case got := <-answers:
		if got.err != nil || got.value != want {
			t.Errorf("got %.40q, %v; want %.40q", got.value, got.err, want)
		}
	case <-time.After(awaitTimeout):
		t.Errorf("no answer, want %.40q", want)
	}
}

func failure(t *testing.T, answers <-chan answer) error {
	t.Helper()
	select {
	case got := <-answers:
		if got.err == nil {
			t.Fatalf("got %.40q, want an error", got.value)
		}
		return got.err
	case <-time.After(awaitTimeout):
		t.Fatal("answer of Do: got none, want one")
		return nil
	}
}

func testMemoOnce(t *testing.T, f Fixture) {
	const replicas, callers = 5, 50
	s := newStore(t, f)
	memos := make([]*locking.Memo, replicas)
	for i := range memos {
		memos[i] = s.join(t, fmt.Sprintf("replica-%d", i)).memo(t)
	}
	for round := range 4 {
		key := fmt.Sprintf("list %d", round)
		source := newBlockedSource()
		var calling sync.WaitGroup
		calling.Add(callers)
		go func() {
			calling.Wait()
			close(source.let)
		}()
		inParallel(callers, func(i int) {
			calling.Done()
			value, err := memos[i%replicas].Do(t.Context(), key, time.Minute, source.compute)
			if err != nil || string(value) != "value 1" {
				t.Errorf("got %q, %v", value, err)
			}
			clear(value) // the caller owns the value
		})
		late := s.join(t, "late").memo(t)
		checkAnswer(t, askMemo(t.Context(), late, key, source.compute), "value 1")
		checkAnswer(t, askMemo(t.Context(), memos[0], key, source.compute), "value 1")
		source.check(t, 1)
	}
}

// testMemoWaitsTogether counts adds. Each caller that asks the store alone needs one add to see
// that the value is being computed.
func testMemoWaitsTogether(t *testing.T, f Fixture) {
	const callers = 20
	s := newStore(t, f)
	a, b := s.join(t, "replica-1"), s.join(t, "replica-2")
	source := newBlockedSource()
	computer := askMemo(t.Context(), a.memo(t), "list", source.compute)
	<-source.started
	memo := b.memo(t)
	var waiters []<-chan answer
	for range callers {
		waiters = append(waiters, askMemo(t.Context(), memo, "list", source.compute))
	}
	await(t, "polling", func() bool { return b.faults.Count(OpGet) > 5 })
	close(source.let)
	checkAnswer(t, computer, "value 1")
	for _, waiter := range waiters {
		checkAnswer(t, waiter, "value 1")
	}
	if n := b.faults.Count(OpAdd); n != 1 {
		t.Errorf("%d adds for %d callers of one process, want 1", n, callers)
	}
	source.check(t, 1)
}

func testMemoError(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a, b := s.join(t, "replica-1"), s.join(t, "replica-2")
	memo := a.memo(t)
	refused := errors.New("refused")
	started, let := make(chan struct{}), make(chan struct{})
	first := askMemo(t.Context(), memo, "list", func(context.Context) ([]byte, error) {
		close(started)
		<-let
		return []byte("half a value"), refused
	})
	<-started
	source := newSource()
	beside := askMemo(t.Context(), memo, "list", source.compute)
	other := askMemo(t.Context(), b.memo(t), "list", source.compute)
	await(t, "polling", func() bool { return b.faults.Count(OpGet) > 2 })
	close(let)
	if err := failure(t, first); err != refused {
		t.Errorf("got %v, want the error of compute", err)
	}
	checkAnswer(t, beside, "value 1")
	checkAnswer(t, other, "value 1")
	source.check(t, 1)
}

// testMemoErrorAfterWaiting makes a caller fail that waited and then computed the value.
func testMemoErrorAfterWaiting(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a, b := s.join(t, "replica-1"), s.join(t, "replica-2")
	started, let := make(chan struct{}), make(chan struct{})
	first := askMemo(t.Context(), a.memo(t), "list", func(context.Context) ([]byte, error) {
		close(started)
		<-let
		return nil, errors.New("first")
	})
	<-started
	// Its error wraps an error for which this package waits.
	refused := &locking.HeldError{Resource: path(t, "needed")}
	calls := 0
	second := askMemo(t.Context(), b.memo(t), "list", func(context.Context) ([]byte, error) {
		calls++
		return nil, refused
	})
	await(t, "polling", func() bool { return b.faults.Count(OpGet) > 2 })
	close(let)
	failure(t, first)
	if err := failure(t, second); err != refused || calls != 1 {
		t.Errorf("got %v after %d calls, want the error of compute after 1", err, calls)
	}
}

func testMemoPanic(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a, b := s.join(t, "replica-1"), s.join(t, "replica-2")
	memo := a.memo(t)
	func() {
		defer func() {
			if got := recover(); got != "planned" {
				t.Errorf("recovered %v", got)
			}
		}()
		_, err := memo.Do(t.Context(), "list", time.Minute, func(context.Context) ([]byte, error) {
			panic("planned")
		})
		t.Errorf("Do returned %v, want a panic", err)
	}()
	s.checkEmpty(t)
	source := newSource()
	checkAnswer(t, askMemo(t.Context(), b.memo(t), "list", source.compute), "value 1")
	checkAnswer(t, askMemo(t.Context(), memo, "list", source.compute), "value 1")
}

func testMemoCancelledWaiter(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a, b := s.join(t, "replica-1"), s.join(t, "replica-2")
	source := newBlockedSource()
	computer := askMemo(t.Context(), a.memo(t), "list", source.compute)
	<-source.started
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	memo := b.memo(t)
	leaving := askMemo(ctx, memo, "list", source.compute)
	await(t, "polling", func() bool { return b.faults.Count(OpGet) > 2 })
	beside, staying := askMemo(ctx, memo, "list", source.compute),
		askMemo(t.Context(), memo, "list", source.compute)
	cancel(stop)
	err := failure(t, leaving)
	check(t, "the waiter", err, stop)
	var held *locking.HeldError
	var exhausted *retry.ExhaustedError
	if !errors.As(err, &held) || held.Holder.Replica != "replica-1" ||
		!errors.As(err, &exhausted) || exhausted.Attempts < 1 {
		t.Errorf("the error does not have the computing caller and the number of tries: %v", err)
	}
	if errors.Is(err, locking.ErrUnavailable) {
		t.Errorf("got %v although the store answered", err)
	}
	check(t, "the waiter beside it", failure(t, beside), stop)
	close(source.let)
	checkAnswer(t, staying, "value 1")
	checkAnswer(t, computer, "value 1")
	source.check(t, 1)
	check(t, "a call that came too late", failure(t, askMemo(ctx, memo, "other", source.compute)),
		stop)
	source.check(t, 1)
}

func testMemoCancelledComputer(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a, b := s.join(t, "replica-1"), s.join(t, "replica-2")
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	memo, blocked, source := a.memo(t), newBlockedSource(), newSource()
	computer := askMemo(ctx, memo, "list", blocked.compute)
	<-blocked.started
	beside, other := askMemo(t.Context(), memo, "list", source.compute),
		askMemo(t.Context(), b.memo(t), "list", source.compute)
	await(t, "polling", func() bool { return b.faults.Count(OpGet) > 2 })
	cancel(stop)
	if err := failure(t, computer); err != stop {
		t.Errorf("got %v, want the error that compute returned", err)
	}
	checkAnswer(t, beside, "value 1")
	checkAnswer(t, other, "value 1")
	source.check(t, 1)

	// The computed value is stored nevertheless, because others wait for it.
	ctx, cancel = context.WithCancelCause(t.Context())
	checkAnswer(t, askMemo(ctx, memo, "finished", func(context.Context) ([]byte, error) {
		cancel(stop)
		return []byte("done"), nil
	}), "done")
	checkAnswer(t, askMemo(t.Context(), b.memo(t), "finished", source.compute), "done")
}

func testMemoSizes(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a, b := s.join(t, "replica-1"), s.join(t, "replica-2")
	memo, other := a.memo(t), b.memo(t)
	longest := strings.Repeat("k", 1024)
	tooLarge := bytes.Repeat([]byte("x"), locking.MaxMemoBytes+1)
	err := failure(t, askMemo(t.Context(), memo, longest, func(context.Context) ([]byte, error) {
		return tooLarge, nil
	}))
	check(t, "a value that is too large", err, locking.ErrTooLarge)
	var unshared *locking.UnsharedError
	if !errors.As(err, &unshared) || unshared.Key != longest ||
		!bytes.Equal(unshared.Value, tooLarge) {
		t.Errorf("the error does not have the value: %.100v", err)
	}
	s.checkEmpty(t)
	for i, value := range [][]byte{tooLarge[1:], {}, nil, {0, '\r', '\n', 255}} {
		key := longest[:1024-i]
		computed := 0
		compute := func(context.Context) ([]byte, error) {
			computed++
			return value, nil
		}
		for _, m := range []*locking.Memo{memo, memo, other} {
			got, err := m.Do(t.Context(), key, time.Minute, compute)
			if err != nil || !bytes.Equal(got, value) {
				t.Errorf("%d bytes: got %d, %v", len(value), len(got), err)
			}
		}
		if computed != 1 {
			t.Errorf("%d bytes: computed %d times", len(value), computed)
		}
	}
}

func testMemoKeys(t *testing.T, f Fixture) {
	s := newStore(t, f)
	memo := s.join(t, "replica-1").memo(t)
	source := newSource()
	good := []string{
		"a", "a/b", "a%2Fb", "a%252Fb", "/a", "a/", "//", "a//b", "../a", "with space", "größe",
		"list?sort=name&page=2",
		strings.Repeat("n", 1024), strings.Repeat("n", 1023) + "m",
	}
	for range 2 {
		for i, key := range good {
			checkAnswer(t, askMemo(t.Context(), memo, key, source.compute),
				fmt.Sprintf("value %d", i+1))
		}
	}
	for _, key := range []string{"", ".", "..", "a\nb", "a\x00", "\xff",
		strings.Repeat("n", 1025)} {
		check(t, "a bad key", failure(t, askMemo(t.Context(), memo, key, source.compute)),
			locking.ErrBadName)
	}
	source.check(t, int64(len(good)))
	lock := s.join(t, "replica-2").lock(t, "job", "free", "value:free")
	checkAnswer(t, askMemo(t.Context(), memo, "free", newSource().compute), "value 1")
	check(t, "release of locks of the same name", lock.Release(t.Context()), nil)
}

// testMemoNested computes a value from the values of its ancestor and its descendant.
func testMemoNested(t *testing.T, f Fixture) {
	s := newStore(t, f)
	memo := s.join(t, "replica-1").memo(t)
	source := newSource()
	nested := askMemo(t.Context(), memo, "a/b", func(ctx context.Context) ([]byte, error) {
		above, err := memo.Do(ctx, "a", time.Minute, source.compute)
		if err != nil {
			return nil, err
		}
		beneath, err := memo.Do(ctx, "a/b/c", time.Minute, source.compute)
		return fmt.Appendf(nil, "%s, %s", above, beneath), err
	})
	checkAnswer(t, nested, "value 1, value 2")
}

func testMemoNamespaces(t *testing.T, f Fixture) {
	s := newStore(t, f)
	source := newSource()
	for i, namespace := range []string{"staging", "production"} {
		memo := s.join(t, "replica-1", func(o *locking.Options) { o.Namespace = namespace }).memo(t)
		checkAnswer(t, askMemo(t.Context(), memo, "list", source.compute),
			fmt.Sprintf("value %d", i+1))
	}
}

func testMemoTTL(t *testing.T, f Fixture) {
	s := newStore(t, f)
	memo := s.join(t, "replica-1").memo(t)
	source := newSource()
	for _, ttl := range []time.Duration{0, -time.Second, time.Second - 1, 30*24*time.Hour + 1} {
		if _, err := memo.Do(t.Context(), "list", ttl, source.compute); err == nil ||
			!strings.Contains(err.Error(), "list") {
			t.Errorf("%v: got %v, want an error that names the key", ttl, err)
		}
	}
	source.check(t, 0)
	start := time.Now()
	for _, ttl := range []time.Duration{30 * 24 * time.Hour, 2900 * time.Millisecond} {
		if _, err := memo.Do(t.Context(), ttl.String(), ttl, source.compute); err != nil {
			t.Errorf("%v: %v", ttl, err)
		}
	}
	await(t, "end of the value", func() bool {
		_, err := memo.Do(t.Context(), "2.9s", time.Minute, source.compute)
		return err != nil || source.calls.Load() > 2
	})
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("2.9 s took %v", took)
	}
	source.check(t, 3)
	checkAnswer(t, askMemo(t.Context(), memo, "720h0m0s", source.compute), "value 1")
}

func testMemoStandsAlone(t *testing.T, f Fixture) {
	restores := newStore(t, f).join(t, "replica-1", restoring)
	if m, err := locking.NewMemo(restores.Locker, restores.owner("lists")); err == nil {
		t.Errorf("a locker with grants was accepted: %v", m)
	}
}
