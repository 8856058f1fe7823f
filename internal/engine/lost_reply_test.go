package engine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/retry"
)

// losing is a store that loses the replies to starts for some time. The starts take effect.
type losing struct {
	storage.Store
	from, until time.Time
	job         string // the job of those starts; "" for all jobs
}

func (l *losing) Start(ctx context.Context, session uuid.UUID,
	requests []storage.StartRequest) ([]storage.StartResult, error) {
	results, err := l.Store.Start(ctx, session, requests)
	of := l.job == "" || slices.ContainsFunc(requests, func(r storage.StartRequest) bool {
		return r.Firing.Job == l.job
	})
	if now := time.Now(); of && now.After(l.from) && now.Before(l.until) {
		return nil, fmt.Errorf("start: %w: the reply is lost", storage.ErrUnavailable)
	}
	return results, err
}

// A start without a reply may have taken effect. The run then belongs to this replica while its
// session is live. No other replica resumes it, even if it is late.
func TestStartWithLostReplyIsRepeatedUntilItIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		long, short := once(t, "long", 10*time.Second, "orders"),
			once(t, "short", 11*time.Second, "orders")
		short.MisfireThreshold = 2 * time.Second
		short.Wait = retry.Policy{Attempts: 100, Delay: time.Second}
		o := c.options("a", takes(20*time.Second), long, short)
		o.Locker = nil // only the store excludes
		o.Store = &losing{Store: c.store, from: time.Now().Add(10500 * time.Millisecond),
			until: time.Now().Add(20 * time.Second)}
		stop := c.start(o)
		time.Sleep(time.Minute)
		if got := c.outcomes("short"); !slices.Equal(got, []string{"succeeded"}) {
			t.Errorf("short: %v, want that it ran when orders was free", got)
		}
		stop()
	})
}

// A run that may have been granted keeps its worker. If it queued for another worker, no replica
// would execute it meanwhile.
func TestStartWithLostReplyKeepsItsWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		short, long := once(t, "short", 10*time.Second, "orders"),
			once(t, "long", 11*time.Second, "sales")
		o := c.options("a", takes(time.Minute), short, long)
		o.Workers = 1
		o.Store = &losing{Store: c.store, job: "short", from: time.Now().Add(9 * time.Second),
			until: time.Now().Add(12 * time.Second)}
		stop := c.start(o)
		time.Sleep(3 * time.Minute)
		stop()
		if got := c.outcomes("short"); !slices.Equal(got, []string{"succeeded"}) {
			t.Errorf("short: %v, want that its run went on once its start was known", got)
		}
	})
}

// While the replica stops, the run continues within the grace period.
func TestStartWithLostReplyIsRepeatedWhileTheReplicaStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		o := c.options("a", takes(time.Second), once(t, "short", 10*time.Second, "orders"))
		o.Store = &losing{Store: c.store, from: time.Now().Add(9900 * time.Millisecond),
			until: time.Now().Add(12 * time.Second)}
		stop := c.start(o)
		time.Sleep(11 * time.Second)
		stop()
		if got := c.outcomes("short"); !slices.Equal(got, []string{"succeeded"}) {
			t.Errorf("short: %v, want that its run went on", got)
		}
	})
}
