package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/retry"
)

func ExampleDo() {
	policy := retry.Policy{Attempts: 3, Delay: time.Millisecond, Backoff: retry.Exponential}
	errHeld := errors.New("table is held")
	tries := 0
	err := retry.Do(context.Background(), policy, func(context.Context) error {
		if tries++; tries < 3 {
			return errHeld
		}
		return nil
	},
		retry.If(func(err error) bool { return errors.Is(err, errHeld) }),
		retry.OnFailure(func(f retry.Failure) error {
			fmt.Printf("try %d: %v, again in %v\n", f.Attempt, f.Err, f.Next)
			return nil
		}))
	fmt.Println(err)
	// Output:
	// try 1: table is held, again in 1ms
	// try 2: table is held, again in 2ms
	// <nil>
}

func ExamplePolicy_Start() {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	series := retry.Policy{Elapsed: 5 * time.Second, Delay: 2 * time.Second}.Start(start)
	for now := start; ; {
		delay, ok := series.Next(now)
		if !ok {
			fmt.Printf("skipped after %d tries and %v\n", series.Attempts(), series.Waited(now))
			return
		}
		now = now.Add(delay)
	}
	// Output:
	// skipped after 4 tries and 5s
}
