package jobs_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/retry"
)

// losing is a store whose replies to starts are lost for a while: what they
// ask takes effect.
type losing struct {
	jobs.Store
	from, until time.Time
}

func (l *losing) Start(ctx context.Context, session uuid.UUID, requests []jobs.StartRequest) ([]jobs.StartResult, error) {
	results, err := l.Store.Start(ctx, session, requests)
	if now := time.Now(); now.After(l.from) && now.Before(l.until) {
		return nil, fmt.Errorf("start: %w: the reply is lost", jobs.ErrUnavailable)
	}
	return results, err
}

// A start without a reply may have taken effect: its run is this replica's for
// as long as its session lives, and nobody else looks after it, however late
// it is.
func TestStartWhoseReplyIsLostIsAskedAgainUntilItIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		long, short := once(t, "long", 10*time.Second, "orders"), once(t, "short", 11*time.Second, "orders")
		short.MisfireThreshold = 2 * time.Second
		short.Wait = retry.Policy{Attempts: 100, Delay: time.Second}
		o := c.options("a", takes(20*time.Second), long, short)
		o.Locker = nil // the store alone decides
		o.Store = &losing{Store: c.store, from: time.Now().Add(10500 * time.Millisecond), until: time.Now().Add(20 * time.Second)}
		stop := c.start(o)
		time.Sleep(time.Minute)
		if got := c.outcomes("short"); !slices.Equal(got, []string{"succeeded"}) {
			t.Errorf("short: %v, want that it ran when orders was free", got)
		}
		stop()
	})
}
