package locking_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
	"github.com/holdfast-dev/holdfast/retry"
)

func Example() {
	ctx := context.Background()
	locker, err := locking.New(memory.New(), locking.Options{Namespace: "staging", Lease: 30 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	sales, _ := locking.Table("Sales", "public")
	rollup, _ := locking.Table("sales_rollup", "public")
	both := []locking.Request{{Resource: sales, Mode: locking.Exclusive}, {Resource: rollup, Mode: locking.Exclusive}}

	lock, err := locker.TryAcquire(ctx, locking.Owner{Replica: "replica-1", Job: "prune", Run: "17"}, both[:1])
	if err != nil {
		fmt.Println(err)
		return
	}
	policy := retry.Policy{Attempts: 2}
	_, err = locker.Acquire(ctx, locking.Owner{Replica: "replica-2", Job: "rollup", Run: "18"}, both, policy)
	var held *locking.HeldError
	if errors.As(err, &held) {
		fmt.Println(held)
	}

	fmt.Println(lock.Release(ctx))
	lock, err = locker.Acquire(ctx, locking.Owner{Replica: "replica-2", Job: "rollup", Run: "18"}, both, policy)
	fmt.Println(err, lock.Requests()[1].Resource)
	// Output:
	// public/sales is held by job prune (run 17) on replica-1
	// <nil>
	// <nil> public/sales_rollup
}
