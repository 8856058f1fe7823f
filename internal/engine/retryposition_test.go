package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

// TestRetryKeepsItsPositionAmongWaiters lets a run wait for its second attempt, and then for a
// table. Its position counts from the end of its first attempt, so it comes before a firing that
// has waited for the table since the delay of the retry.
func TestRetryKeepsItsPositionAmongWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		retried := once(t, "retried", 10*time.Second, "orders")
		retried.Handler = "fails"
		retried.Retry = retry.Policy{Attempts: 2, Delay: 10 * time.Second, Backoff: retry.Constant}
		holder := once(t, "holder", 11*time.Second, "orders")
		holder.Resources[0].Mode = locking.Shared // no advisory lock, so that the store refuses
		younger := once(t, "younger", 15*time.Second, "orders")
		for _, j := range []*jobs.Job{&retried, &younger} {
			j.Wait = retry.Policy{Elapsed: time.Hour, Delay: 7 * time.Minute,
				Backoff: retry.Constant}
			j.Reserve = time.Hour
		}
		handlers := append(takes(30*time.Second), jobs.Handle("fails",
			func(ctx context.Context, run *jobs.Run, _ struct{}) error {
				if run.Attempt == 1 {
					return errors.New("first attempt")
				}
				return sleep.For(ctx, 5*time.Second)
			}))
		stop := c.start(c.options("a", handlers, retried, holder, younger))
		time.Sleep(20 * time.Minute)
		stop()
		freed, end := c.runs("holder")[0].FinishedAt, c.runs("retried")[0].FinishedAt
		if freed == nil || end == nil || end.Sub(*freed) > 6*time.Second {
			t.Errorf("the second attempt ended at %v, want 5 s after the end of the holder, %v",
				end, freed)
		}
	})
}
