package sleep

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var errEnded = errors.New("ended")

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		for _, d := range []time.Duration{-time.Second, 0, time.Nanosecond, time.Hour} {
			start := time.Now()
			if err := For(ctx, d); err != nil {
				t.Errorf("For(%s): %v", d, err)
			}
			if got := time.Since(start); got != max(d, 0) {
				t.Errorf("For(%s) took %s", d, got)
			}
		}
		start := time.Now()
		time.AfterFunc(time.Minute, func() { cancel(errEnded) })
		for _, d := range []time.Duration{time.Hour, time.Hour, 0, -time.Second} {
			if err := For(ctx, d); !errors.Is(err, errEnded) {
				t.Errorf("For(%s) after the end of the context: %v", d, err)
			}
		}
		if got := time.Since(start); got != time.Minute {
			t.Errorf("the context ended after a minute, For returned after %s", got)
		}
	})
}

// With time.NewTimer in place of Timer, or without the return for times that have passed in For,
// the race detector crashes.
func TestManyTimesThatHavePassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				for range 5000 {
					if err := For(t.Context(), -time.Second); err != nil {
						t.Error(err)
					}
					<-Timer(-time.Second).C
				}
			})
		}
		group.Wait()
	})
}
