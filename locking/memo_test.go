package locking_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/lockingtest"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
	"github.com/holdfast-dev/holdfast/retry"
)

func newMemo(t *testing.T, l *locking.Locker) *locking.Memo {
	t.Helper()
	m, err := locking.NewMemo(l, locking.Owner{Replica: "replica"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// fixed returns a compute function for a fixed value.
func fixed(value string) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) { return []byte(value), nil }
}

func checkMemo(t *testing.T, m *locking.Memo, compute func(context.Context) ([]byte, error),
	want string) {
	t.Helper()
	if got, err := m.Do(t.Context(), "list", time.Hour, compute); err != nil ||
		string(got) != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

// A locker that does not run renews nothing, like one whose process was killed. The value that its
// caller computed is refused when it continues.
func TestMemoHandsOverWhenTheLockRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := memory.New()
		dead, live := newMemo(t, newLocker(t, backend, locking.Options{})),
			newMemo(t, start(t, backend, locking.Options{}))
		startedAt := time.Now()
		wake := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			first := true
			checkMemo(t, dead, func(ctx context.Context) ([]byte, error) {
				if !first {
					t.Error("calls of compute: got a second one, want one")
				}
				first = false
				<-ctx.Done()
				if took := time.Since(startedAt); took != trust {
					t.Errorf("the context ended after %v, want %v", took, trust)
				}
				if lost := new(locking.LostError); !errors.As(context.Cause(ctx), &lost) ||
					lost.Reason != locking.LossUnconfirmed {
					t.Errorf("cause: %v", context.Cause(ctx))
				}
				<-wake
				return []byte("stale"), nil
			}, "fresh")
		})
		synctest.Wait()
		for range 3 {
			all.Go(func() {
				checkMemo(t, live, func(context.Context) ([]byte, error) {
					if took := time.Since(startedAt); took < lease ||
						took > lease+250*time.Millisecond {
						t.Errorf("handed over after %v, want %v and one poll at most", took,
							lease)
					}
					return []byte("fresh"), nil
				}, "fresh")
			})
		}
		time.Sleep(time.Minute)
		close(wake)
		all.Wait()
	})
}

func TestMemoGivesUpAfterThreeLostLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := memory.New()
		memo := newMemo(t, start(t, backend, locking.Options{}))
		calls := 0
		_, err := memo.Do(t.Context(), "list", time.Hour,
			func(ctx context.Context) ([]byte, error) {
				calls++
				found, err := backend.Get(ctx, "test:memo:list")
				if err != nil || len(found) != 1 {
					t.Errorf("the lock: %v, %v", found, err)
				}
				if err := backend.Delete(ctx, "test:memo:list",
					found["test:memo:list"]); err != nil {
					t.Error(err)
				}
				<-ctx.Done()
				return nil, ctx.Err()
			})
		lost := new(locking.LostError)
		if !errors.As(err, &lost) || lost.Reason != locking.LossVanished || calls != 3 {
			t.Errorf("got %v after %d turns, want a lost lock after 3", err, calls)
		}
		checkMemo(t, memo, fixed("fresh"), "fresh")
	})
}

// TestMemoSharesAnUnstoredValue makes several callers of a process wait for a value that cannot be
// stored.
func TestMemoSharesAnUnstoredValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := lockingtest.NewFaulty(memory.New())
		memo := newMemo(t, start(t, faulty, locking.Options{}))
		faulty.Choose(func(op lockingtest.Op, key string) lockingtest.Fault {
			if op == lockingtest.OpAdd && key == "test:value:list" {
				return lockingtest.Full
			}
			return lockingtest.None
		})
		calls := 0
		ask := func() {
			_, err := memo.Do(t.Context(), "list", time.Hour,
				func(context.Context) ([]byte, error) {
					calls++
					time.Sleep(time.Second)
					return []byte("value"), nil
				})
			var unshared *locking.UnsharedError
			if !errors.As(err, &unshared) || string(unshared.Value) != "value" ||
				unshared.Key != "list" || !errors.Is(err, locking.ErrFull) {
				t.Errorf("got %v, want an error with the value", err)
				return
			}
			clear(unshared.Value) // the caller owns the value
		}
		var all sync.WaitGroup
		for range 5 {
			all.Go(ask)
		}
		all.Wait()
		if calls != 1 {
			t.Errorf("computed %d times for callers that waited, want once", calls)
		}
		if ask(); calls != 2 {
			t.Errorf("computed %d times after a later call, want 2", calls)
		}
	})
}

// TestMemoDoesNotShareTheErrorOfAnotherMemo returns, from compute, that the value of another key
// could not be stored.
func TestMemoDoesNotShareTheErrorOfAnotherMemo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memo := newMemo(t, start(t, memory.New(), locking.Options{}))
		other := &locking.UnsharedError{Key: "other", Err: locking.ErrFull}
		var all sync.WaitGroup
		defer all.Wait()
		all.Go(func() {
			if _, err := memo.Do(t.Context(), "list", time.Hour,
				func(context.Context) ([]byte, error) {
					time.Sleep(time.Second)
					return nil, other
				}); err != other {
				t.Errorf("got %v, want the error of compute", err)
			}
		})
		synctest.Wait()
		checkMemo(t, memo, fixed("value"), "value")
	})
}

// TestMemoNamesTheCallerOfItsProcess ends a caller that waits for another one of the same process.
func TestMemoNamesTheCallerOfItsProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memo := newMemo(t, start(t, memory.New(), locking.Options{}))
		var computer sync.WaitGroup
		defer computer.Wait()
		computer.Go(func() {
			checkMemo(t, memo, func(context.Context) ([]byte, error) {
				time.Sleep(time.Minute)
				return []byte("value"), nil
			}, "value")
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := memo.Do(ctx, "list", time.Hour, fixed("other"))
		var held *locking.HeldError
		var exhausted *retry.ExhaustedError
		if !errors.As(err, &held) || held.Holder.Replica != "replica" ||
			held.Resource.Key() != "memo:list" || !errors.As(err, &exhausted) ||
			exhausted.Attempts != 1 || exhausted.Waited != time.Second ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the caller of this process and the end of the context", err)
		}
	})
}

func TestMemoPollsMoreOftenOverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := memory.New()
		faulty := lockingtest.NewFaulty(backend)
		computer, waiter := newMemo(t, start(t, backend, locking.Options{})),
			newMemo(t, newLocker(t, faulty, locking.Options{}))
		var all sync.WaitGroup
		all.Go(func() {
			checkMemo(t, computer, func(context.Context) ([]byte, error) {
				time.Sleep(time.Minute)
				return []byte("value"), nil
			}, "value")
		})
		synctest.Wait()
		all.Go(func() { checkMemo(t, waiter, fixed("other"), "value") })
		time.Sleep(time.Second)
		synctest.Wait()
		if n := faulty.Count(lockingtest.OpGet); n < 5 || n > 12 {
			t.Errorf("%d looks in the first second, want about 7", n)
		}
		all.Wait()
		if n := faulty.Count(lockingtest.OpGet); n < 470 || n > 600 {
			t.Errorf("%d looks in a minute, want about 530", n)
		}
		if n := faulty.Count(lockingtest.OpAdd); n != 1 {
			t.Errorf("%d adds, want 1: it asks for the lock again when that is free", n)
		}
	})
}

func TestMemoTTLIsRoundedToSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memo := newMemo(t, newLocker(t, memory.New(), locking.Options{}))
		if _, err := memo.Do(t.Context(), "list", 2900*time.Millisecond,
			fixed("first")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*time.Second - time.Nanosecond)
		checkMemo(t, memo, fixed("second"), "first")
		time.Sleep(time.Nanosecond)
		checkMemo(t, memo, fixed("second"), "second")
	})
}

func TestMemoComputesUnderItsCallersContext(t *testing.T) {
	memo := newMemo(t, newLocker(t, memory.New(), locking.Options{}))
	type key struct{}
	ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Hour)
	defer cancel()
	var kept context.Context
	if _, err := memo.Do(ctx, "list", time.Hour, func(inner context.Context) ([]byte, error) {
		kept = inner
		want, _ := ctx.Deadline()
		if got, has := inner.Deadline(); !has || !got.Equal(want) ||
			inner.Value(key{}) != "value" || inner.Err() != nil {
			t.Errorf("deadline %v, value %v, %v", got, inner.Value(key{}), inner.Err())
		}
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	if kept.Err() == nil {
		t.Error("context of compute after its return: got it active, want it ended")
	}
}

func ExampleMemo() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	locker, err := locking.New(memory.New(),
		locking.Options{Namespace: "staging", Lease: 30 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	go locker.Run(ctx) // renews the lock while a value is computed
	lists, err := locking.NewMemo(locker, locking.Owner{Replica: "replica-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		list, err := lists.Do(ctx, "orders?sort=name", time.Minute,
			func(context.Context) ([]byte, error) {
				fmt.Println("computing")
				return []byte("the list"), nil
			})
		fmt.Println(string(list), err)
	}
	// Output:
	// computing
	// the list <nil>
	// the list <nil>
}
