package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
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

// Each attempt has its own state, error, times and output, with the job's secrets masked.
func TestAttemptsAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const token = "hunter2hunter2"
		c := newCluster(t)
		handler := jobs.Handle("work", func(ctx context.Context, run *jobs.Run, _ struct{}) error {
			fmt.Fprintf(run.Output(), "attempt %d with %s\n", run.Attempt, token)
			switch run.Attempt {
			case 1:
				time.Sleep(2 * time.Second)
				return errors.New("boom " + token)
			case 2:
				<-ctx.Done()
				return ctx.Err()
			}
			time.Sleep(3 * time.Second)
			return nil
		})
		j := once(t, "job", 10*time.Second, "orders")
		j.Retry = retry.Policy{Attempts: 3, Delay: time.Minute}
		j.Timeout, j.Secrets = 5*time.Second, []string{token}
		stop := c.start(c.options("a", []jobs.Registration{handler}, j))
		time.Sleep(5 * time.Minute)
		stop()
		runs := c.runs("job")
		if len(runs) != 1 || runs[0].State != jobs.Succeeded || runs[0].Attempt != 3 {
			t.Fatalf("got %+v, want one run that succeeded in attempt 3", runs)
		}
		attempts, err := c.store.RunAttempts(t.Context(), runs[0].ID)
		if err != nil || len(attempts) != 2 {
			t.Fatalf("got %+v, %v, want two attempts", attempts, err)
		}
		last, _ := runs[0].LastAttempt()
		for i, want := range []struct {
			storage.RunAttempt
			took time.Duration
		}{
			{storage.RunAttempt{State: jobs.Failed, Error: "boom [redacted]"}, 2 * time.Second},
			{storage.RunAttempt{State: jobs.TimedOut, Reason: reasons.Timeout}, 5 * time.Second},
			{storage.RunAttempt{State: jobs.Succeeded}, 3 * time.Second},
		} {
			got := append(attempts, last)[i]
			took, _ := got.Took()
			if got.Attempt != i+1 || got.State != want.State || got.Reason != want.Reason ||
				got.Replica != "a" || took.Round(time.Second) != want.took ||
				want.Error != "" && got.Error != want.Error {
				t.Errorf("got %+v, which took %s, want %+v", got, took, want)
			}
		}
		for n := range attempts {
			a, err := c.store.RunAttempt(t.Context(), runs[0].ID, n+1)
			if want := fmt.Sprintf("attempt %d with [redacted]\n", n+1); err != nil ||
				!strings.HasPrefix(a.Output, want) {
				t.Errorf("output of attempt %d: %q, %v, want %q", n+1, a.Output, err, want)
			}
		}
	})
}
