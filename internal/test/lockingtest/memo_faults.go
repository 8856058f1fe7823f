package lockingtest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/locking"
)

func memoFaultTests() map[string]func(*testing.T, Fixture) {
	return map[string]func(*testing.T, Fixture){
		"LostReplies":      testMemoLostReplies,
		"DelayedAdd":       testMemoDelayedAdd,
		"Unavailable":      testMemoUnavailable,
		"EndedContext":     testMemoEndedContext,
		"Unstored":         testMemoUnstored,
		"Foreign":          testMemoForeign,
		"ForeignSibling":   testMemoForeignSibling,
		"Evicted":          testMemoEvicted,
		"FirstValueIsKept": testMemoFirstValueIsKept,
		"SecondGet":        testMemoSecondGet,
		"OwnStray":         testMemoOwnStray,
		"LostLock":         testMemoLostLock,
		"StaleValue":       testMemoStaleValue,
	}
}

const (
	memoValue = "test:value:list" // the keys of the memo "list"
	memoLock  = "test:memo:list"
)

// onKey makes the operations of a kind on a key fail with the fault.
func onKey(key string, op Op, fault Fault) func(Op, string) Fault {
	return func(foundOp Op, foundKey string) Fault {
		if foundOp == op && foundKey == key {
			return fault
		}
		return None
	}
}

// discard removes what is stored under key, as an eviction does.
func (s *store) discard(t *testing.T, key string) {
	t.Helper()
	found, err := s.Get(t.Context(), key)
	if err != nil || len(found) == 0 {
		t.Errorf("%s does not exist: %v", key, err)
	}
	check(t, "delete", s.Delete(t.Context(), key, found[key]), nil)
}

func (s *store) put(t *testing.T, key, value string) {
	t.Helper()
	check(t, "add", s.Add(t.Context(), key, []byte(value), time.Minute), nil)
}

func testMemoLostReplies(t *testing.T, f Fixture) {
	for _, fault := range []Fault{LoseReply, LoseRequest} {
		s := newStore(t, f)
		a, b := s.join(t, "replica-1"), s.join(t, "replica-2")
		lost := false
		a.faults.Choose(func(op Op, key string) Fault {
			if op != OpAdd || key != memoValue || lost {
				return None
			}
			lost = true
			return fault
		})
		source := newSource()
		checkAnswer(t, askMemo(t.Context(), a.memo(t), "list", source.compute), "value 1")
		checkAnswer(t, askMemo(t.Context(), b.memo(t), "list", source.compute), "value 1")
		source.check(t, 1)
		if !lost {
			t.Error("no reply was lost")
		}
		s.discard(t, memoValue)
		s.checkEmpty(t)
	}
}

// testMemoDelayedAdd makes all adds of a value arrive after a later value was stored.
func testMemoDelayedAdd(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a, b := s.join(t, "replica-1"), s.join(t, "replica-2")
	source := newSource()
	a.faults.Choose(onKey(memoValue, OpAdd, Late))
	err := failure(t, askMemo(t.Context(), a.memo(t), "list", source.compute))
	check(t, "a value whose replies were lost", err, locking.ErrUnclear)
	checkUnshared(t, err, "value 1")
	a.faults.Choose(nil)
	checkAnswer(t, askMemo(t.Context(), b.memo(t), "list", source.compute), "value 2")
	a.faults.Land()
	checkAnswer(t, askMemo(t.Context(), a.memo(t), "list", source.compute), "value 2")
	source.check(t, 2)
}

func checkUnshared(t *testing.T, err error, value string) {
	t.Helper()
	var unshared *locking.UnsharedError
	if !errors.As(err, &unshared) || string(unshared.Value) != value || unshared.Key != "list" {
		t.Errorf("got %v, want an error that contains %q", err, value)
	}
}

func testMemoUnavailable(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1")
	memo, source := a.memo(t), newSource()
	reads := 0
	tests := []struct {
		name   string
		want   error
		choose func(op Op, key string) Fault
	}{
		{"store", locking.ErrUnavailable, func(Op, string) Fault { return Unavailable }},
		{"look", locking.ErrUnavailable, onKey(memoValue, OpGet, Unavailable)},
		{"lock", locking.ErrUnavailable, onKey(memoLock, OpAdd, Unavailable)},
		{"room for the lock", locking.ErrFull, onKey(memoLock, OpAdd, Full)},
		{"replies about the lock", locking.ErrUnclear, onKey(memoLock, OpAdd, LoseRequest)},
		{"look under the lock", locking.ErrUnavailable, func(op Op, key string) Fault {
			if op != OpGet || key != memoValue {
				return None
			}
			if reads++; reads == 1 {
				return None
			}
			return Unavailable
		}},
	}
	for _, test := range tests {
		a.faults.Choose(test.choose)
		err := failure(t, askMemo(t.Context(), memo, "list", source.compute))
		check(t, test.name, err, test.want)
		if unshared := new(locking.UnsharedError); errors.As(err, &unshared) ||
			!strings.Contains(err.Error(), "list") {
			t.Errorf("%s: nothing was computed, and the error names the key: %v", test.name, err)
		}
	}
	source.check(t, 0)
	a.faults.Choose(nil)
	s.checkEmpty(t)
}

// testMemoEndedContext ends ctx during a call of the store: in the first get and while the caller
// waits. The error must not say that the store is unavailable.
func testMemoEndedContext(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a, b := s.join(t, "replica-1"), s.join(t, "replica-2")
	stop := errors.New("stop")
	endAt := func(look int) error {
		ctx, cancel := context.WithCancelCause(t.Context())
		b.faults.Choose(func(op Op, _ string) Fault {
			if op == OpGet {
				if look--; look == 0 {
					cancel(stop)
				}
			}
			return None
		})
		return failure(t, askMemo(ctx, b.memo(t), "list", newSource().compute))
	}
	first := endAt(1)
	source := newBlockedSource()
	computer := askMemo(t.Context(), a.memo(t), "list", source.compute)
	<-source.started
	waiting := endAt(4)
	for _, err := range []error{first, waiting} {
		check(t, "a caller that has gone", err, stop)
		if errors.Is(err, locking.ErrUnavailable) {
			t.Errorf("got %v although the store answered", err)
		}
	}
	check(t, "a caller that has waited", waiting, locking.ErrHeld)
	close(source.let)
	checkAnswer(t, computer, "value 1")
}

func testMemoUnstored(t *testing.T, f Fixture) {
	for fault, want := range map[Fault]error{Unavailable: locking.ErrUnavailable,
		Full: locking.ErrFull, LoseRequest: locking.ErrUnclear} {
		s := newStore(t, f)
		a := s.join(t, "replica-1")
		source := newSource()
		a.faults.Choose(onKey(memoValue, OpAdd, fault))
		err := failure(t, askMemo(t.Context(), a.memo(t), "list", source.compute))
		check(t, "a value that can't be stored", err, want)
		checkUnshared(t, err, "value 1")
		a.faults.Choose(nil)
		s.checkEmpty(t)
	}
}

func testMemoForeign(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1")
	source := newSource()
	for _, value := range []string{"", "garbage", "memo 1 list", "memo 1 lists\nvalue",
		"memo 1 lis\nvalue", "memo 2 list\nvalue", "\x00\xff"} {
		s.put(t, memoValue, value)
		check(t, "a foreign value",
			failure(t, askMemo(t.Context(), a.memo(t), "list", source.compute)),
			locking.ErrForeignValue)
		checkValue(t, s, memoValue, value)
		s.discard(t, memoValue)
	}
	s.put(t, memoLock, "garbage") // unknown holder: the caller waits, and its error says so
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	looks := a.faults.Count(OpGet)
	waiter := askMemo(ctx, a.memo(t), "list", source.compute)
	await(t, "polling", func() bool { return a.faults.Count(OpGet) > looks+2 })
	cancel(stop)
	err := failure(t, waiter)
	check(t, "a foreign lock", err, locking.ErrHeld)
	check(t, "a foreign lock", err, stop)
	checkValue(t, s, memoLock, "garbage")
	source.check(t, 0)
}

func testMemoForeignSibling(t *testing.T, f Fixture) {
	s := newStore(t, f)
	err := failure(t, askMemo(t.Context(), s.join(t, "replica-1").memo(t), "list",
		func(context.Context) ([]byte, error) {
			s.put(t, memoValue, "garbage")
			return []byte("mine"), nil
		}))
	check(t, "a foreign value", err, locking.ErrForeignValue)
	checkUnshared(t, err, "mine")
	checkValue(t, s, memoValue, "garbage")
}

func testMemoEvicted(t *testing.T, f Fixture) {
	s := newStore(t, f)
	memo, source := s.join(t, "replica-1").memo(t), newSource()
	checkAnswer(t, askMemo(t.Context(), memo, "list", source.compute), "value 1")
	s.discard(t, memoValue)
	checkAnswer(t, askMemo(t.Context(), memo, "list", source.compute), "value 2")
}

// testMemoFirstValueIsKept makes another caller store a value while this caller computes. That
// happens after the store forgot the lock.
func testMemoFirstValueIsKept(t *testing.T, f Fixture) {
	s := newStore(t, f)
	memo := s.join(t, "replica-1").memo(t)
	checkAnswer(t, askMemo(t.Context(), memo, "list", func(context.Context) ([]byte, error) {
		s.put(t, memoValue, "memo 1 list\ntheirs")
		return []byte("mine"), nil
	}), "theirs")
	checkValue(t, s, memoValue, "memo 1 list\ntheirs")
}

// testMemoSecondGet makes another caller compute the value between the first get and the lock.
func testMemoSecondGet(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a, b := s.join(t, "replica-1"), s.join(t, "replica-2")
	source, other, done := newSource(), b.memo(t), false
	a.faults.Choose(func(op Op, _ string) Fault {
		if op == OpGet && !done {
			done = true
			a.faults.afterNext(func() {
				if _, err := other.Do(t.Context(), "list", time.Minute,
					source.compute); err != nil {
					t.Errorf("other caller: %v", err)
				}
			})
		}
		return None
	})
	checkAnswer(t, askMemo(t.Context(), a.memo(t), "list", source.compute), "value 1")
	source.check(t, 1)
	s.discard(t, memoValue)
	s.checkEmpty(t)
}

// testMemoOwnStray makes a delayed add of the waiter arrive when the lock is released. The waiter
// must not wait for itself.
func testMemoOwnStray(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a, b := s.join(t, "replica-1"), s.join(t, "replica-2")
	refused := errors.New("refused")
	let := make(chan struct{})
	other := b.memo(t)
	var computer <-chan answer
	a.faults.Choose(func(op Op, key string) Fault {
		if op != OpAdd || key != memoLock || computer != nil {
			return None
		}
		started := make(chan struct{})
		computer = askMemo(t.Context(), other, "list", func(context.Context) ([]byte, error) {
			close(started)
			<-let
			return nil, refused
		})
		<-started
		return Late
	})
	source := newSource()
	waiter := askMemo(t.Context(), a.memo(t), "list", source.compute)
	await(t, "polling", func() bool { return a.faults.Count(OpGet) > 3 })
	b.faults.Choose(func(op Op, _ string) Fault {
		if op == OpDelete {
			b.faults.afterNext(a.faults.Land)
		}
		return None
	})
	start := time.Now()
	close(let)
	check(t, "the computer", failure(t, computer), refused)
	checkAnswer(t, waiter, "value 1")
	if took := time.Since(start); took > lease/2 {
		t.Errorf("the caller waited %v for its own advisory lock", took)
	}
}

// testMemoLostLock waits for a renewal, which finds that the lock is gone. No renewal happens while
// the other replica has the lock.
func testMemoLostLock(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a, b := s.join(t, "replica-1"), s.join(t, "replica-2")
	a.start(t)
	blocked, source := newBlockedSource(), newSource()
	cause := make(chan error, 1)
	loser := askMemo(t.Context(), a.memo(t), "list", func(ctx context.Context) ([]byte, error) {
		value, err := blocked.compute(ctx)
		cause <- err
		return value, err
	})
	<-blocked.started
	released := make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	defer release()
	a.faults.Choose(func(op Op, _ string) Fault {
		if op == OpRenew {
			<-released
		}
		return None
	})
	s.discard(t, memoLock)
	checkAnswer(t, askMemo(t.Context(), b.memo(t), "list", source.compute), "value 1")
	release()
	checkAnswer(t, loser, "value 1")
	checkLost(t, <-cause, locking.LossVanished)
	blocked.check(t, 1)
}

// testMemoStaleValue computes a value under a lost lock, while a later value was stored and
// removed. The older value must not be stored or returned.
func testMemoStaleValue(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a, b := s.join(t, "replica-1"), s.join(t, "replica-2")
	a.start(t)
	source := newSource()
	stale := askMemo(t.Context(), a.memo(t), "list", func(ctx context.Context) ([]byte, error) {
		if source.calls.Load() == 0 {
			s.discard(t, memoLock)
			checkAnswer(t, askMemo(t.Context(), b.memo(t), "list", source.compute), "value 1")
			s.discard(t, memoValue)
			<-ctx.Done()
			return []byte("stale"), nil
		}
		return source.compute(ctx)
	})
	checkAnswer(t, stale, "value 2")
	checkAnswer(t, askMemo(t.Context(), b.memo(t), "list", source.compute), "value 2")
}
