package engine_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/retry"
)

// slowStarts is a store that takes longer for the start of one job. It notes when the first end is
// recorded.
type slowStarts struct {
	storage.Store
	job   string
	takes time.Duration
	ended chan time.Time
}

func (s *slowStarts) Start(ctx context.Context, session uuid.UUID,
	requests []storage.StartRequest) ([]storage.StartResult, error) {
	if slices.ContainsFunc(requests, func(r storage.StartRequest) bool {
		return r.Firing.Job == s.job
	}) {
		time.Sleep(s.takes)
	}
	return s.Store.Start(ctx, session, requests)
}

func (s *slowStarts) Finish(ctx context.Context,
	requests []storage.FinishRequest) ([]bool, error) {
	select {
	case s.ended <- time.Now():
	default:
	}
	return s.Store.Finish(ctx, requests)
}

// While a replica starts a run, the end of another run waits for up to 50 ms. It does not wait if a
// firing of the replica waits for its table, or if its job fires again within 100 ms.
func TestEndsWaitForStarts(t *testing.T) {
	const startsAt = 19 * time.Second
	for _, c := range []struct {
		name    string
		takes   time.Duration // from the end to the end of the start of the other job
		before  time.Duration // from the end to the next firing of its job; 0: there is none
		waiting bool          // a firing waits for its table
		want    time.Duration // from the end of the handler to its record
	}{
		{name: "until the start has ended", takes: 20 * time.Millisecond,
			want: 20 * time.Millisecond},
		{name: "for the longest time", takes: time.Second, want: 50 * time.Millisecond},
		{name: "but not if a firing waits for the table", takes: time.Second, waiting: true},
		{name: "but not before the next firing of the job", takes: time.Second,
			before: 90 * time.Millisecond},
		{name: "if the next firing of the job comes later", takes: time.Second,
			before: 110 * time.Millisecond, want: 50 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newCluster(t)
				began := time.Now()
				ends, endsAt := once(t, "ends", 10*time.Second, "orders"), 19500*time.Millisecond
				if c.before > 0 {
					ends, endsAt = job(t, "ends", 10*time.Second, "orders"), 20*time.Second-c.before
				}
				ends.Handler = "ends"
				handlers := append(takes(time.Second), jobs.Handle("ends",
					func(context.Context, *jobs.Run, struct{}) error {
						time.Sleep(time.Until(began.Add(endsAt)))
						return nil
					}))
				table := []jobs.Job{ends, once(t, "starts", startsAt, "items")}
				if c.waiting {
					waits := once(t, "waits", 15*time.Second, "orders")
					waits.Wait = retry.Policy{Elapsed: time.Hour, Delay: time.Hour,
						Backoff: retry.Constant}
					table = append(table, waits)
				}
				o := cl.options("a", handlers, table...)
				store := &slowStarts{Store: cl.store, job: "starts",
					takes: endsAt - startsAt + c.takes,
					ended: make(chan time.Time, 1)}
				o.Store = store
				stop := cl.start(o)
				took := (<-store.ended).Sub(began.Add(endsAt))
				stop()
				if took < c.want || took > c.want+5*time.Millisecond {
					t.Errorf("the end was recorded after %s, want %s", took, c.want)
				}
			})
		})
	}
}
