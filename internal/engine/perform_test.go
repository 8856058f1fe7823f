package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/retry"
)

// unfinished is a store that refuses to record ends of attempts until a given time.
type unfinished struct {
	storage.Store
	until time.Time
}

func (u *unfinished) Finish(ctx context.Context, requests []storage.FinishRequest) ([]bool, error) {
	if time.Now().Before(u.until) {
		return nil, fmt.Errorf("finish: %w", storage.ErrUnavailable)
	}
	return u.Store.Finish(ctx, requests)
}

// The claim exists until the end of the attempt is recorded. Another attempt before that would get
// the same claim and reuse its token.
func TestNoAttemptBeforeTheEndOfTheLastIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		calls := 0
		failing := jobs.Handle("work", func(context.Context, *jobs.Run, struct{}) error {
			calls++
			return errors.New("boom")
		})
		j := once(t, "job", 10*time.Second, "orders")
		j.Retry = retry.Policy{Attempts: 3, Delay: time.Second}
		o := c.options("a", []jobs.Registration{failing}, j)
		// heartbeats renew the session meanwhile
		o.Store = &unfinished{c.store, time.Now().Add(time.Minute)}
		stop := c.start(o)
		// after one TTL the replica gives up, and its next heartbeat ends the claim
		time.Sleep(50 * time.Second)
		if got := c.outcomes("job"); calls != 1 || !slices.Equal(got, []string{"lost claim_lost"}) {
			t.Errorf("%d calls of the handler, %v; want one, whose run is lost", calls, got)
		}
		time.Sleep(time.Minute)
		stop()
		if calls != 1 {
			t.Errorf("%d calls of the handler in the end, want one", calls)
		}
	})
}
