package locking_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
	"github.com/holdfast-dev/holdfast/retry"
)

func Example() {
	ctx := context.Background()
	locker, err := locking.New(memory.New(),
		locking.Options{Namespace: "staging", Lease: 30 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	sales, _ := locking.Table("Sales", "public")
	rollup, _ := locking.Table("sales_rollup", "public")
	both := []locking.Request{{Resource: sales, Mode: locking.Exclusive},
		{Resource: rollup, Mode: locking.Exclusive}}

	lock, err := locker.TryAcquire(ctx,
		locking.Owner{Replica: "replica-1", Job: "prune", Run: "17"}, both[:1])
	if err != nil {
		fmt.Println(err)
		return
	}
	policy := retry.Policy{Attempts: 2}
	_, err = locker.Acquire(ctx, locking.Owner{Replica: "replica-2", Job: "rollup", Run: "18"},
		both, policy)
	var held *locking.HeldError
	if errors.As(err, &held) {
		fmt.Println(held)
	}

	fmt.Println(lock.Release(ctx))
	lock, err = locker.Acquire(ctx, locking.Owner{Replica: "replica-2", Job: "rollup", Run: "18"},
		both, policy)
	fmt.Println(err, lock.Requests()[1].Resource)
	// Output:
	// public/sales is held by job prune (run 17) on replica-1
	// <nil>
	// <nil> public/sales_rollup
}

// A program locks paths of a file server. Moving a folder blocks changes of the folder, its
// descendants and its ancestors on every replica.
func Example_grants() {
	ctx, stop := context.WithCancel(context.Background())
	advisory, grants := memory.New(), memory.NewGrants() // in a cluster: memcached and PostgreSQL
	replica := func(name string) *locking.Locker {
		locker, err := locking.New(advisory, locking.Options{
			Namespace: "files", Lease: 30 * time.Second,
			Grants: grants, Session: locking.Session{Replica: name, ReplaceEarlier: true},
		})
		if err != nil {
			panic(err)
		}
		return locker
	}
	one, two := replica("replica-1"), replica("replica-2")
	var running sync.WaitGroup
	for _, locker := range []*locking.Locker{one, two} {
		running.Go(func() {
			if err := locker.Run(ctx); err != nil {
				fmt.Println(err)
			}
		})
		if err := locker.Ready(ctx); err != nil {
			fmt.Println(err)
		}
	}
	path := func(name string, mode locking.Mode) []locking.Request {
		resource, err := locking.Path(name)
		if err != nil {
			panic(err)
		}
		return []locking.Request{{Resource: resource, Mode: mode}}
	}

	move, err := one.TryAcquire(ctx, locking.Owner{Job: "move"},
		path("/shared/marketing/Dallas", locking.Exclusive))
	fmt.Println(err, move.Token() > 0)
	_, err = two.TryAcquire(ctx, locking.Owner{Job: "rename"},
		path("/shared/marketing", locking.Exclusive))
	fmt.Println(err)
	sibling, err := two.TryAcquire(ctx, locking.Owner{Job: "upload"},
		path("/shared/marketing/Austin", locking.Exclusive))
	fmt.Println(err, sibling.Token() > move.Token())

	_, err = two.Acquire(ctx, locking.Owner{Job: "list"}, path("/shared", locking.Shared),
		retry.Policy{Attempts: 3, Delay: time.Millisecond})
	var gaveUp *retry.ExhaustedError
	fmt.Println(errors.Is(err, locking.ErrHeld), errors.As(err, &gaveUp) && gaveUp.Attempts == 3)

	stop() // all locks end, and are given back
	running.Wait()
	fmt.Println(errors.Is(context.Cause(move.Context()), locking.ErrSessionLost))
	// Output:
	// <nil> true
	// path:shared/marketing/Dallas is held by job move on replica-1
	// <nil> true
	// true true
	// true
}
