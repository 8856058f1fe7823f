package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Two replicas fire for longer than the retention.
func TestHistoryIsKeptForTheRetention(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		table := []jobs.Job{job(t, "job", 20*time.Second), once(t, "long", time.Minute, "orders")}
		var stops []func()
		for _, name := range []string{"a", "b"} {
			o := c.options(name, []jobs.Registration{jobs.Handle("work",
				func(ctx context.Context, run *jobs.Run, _ struct{}) error {
					if run.Job == "long" {
						select {
						case <-time.After(20 * time.Minute):
						case <-ctx.Done():
						}
					}
					return nil
				})}, table...)
			o.KeepHistory = 10 * time.Minute
			stops = append(stops, c.start(o))
		}
		left := func(least, most int) {
			t.Helper()
			runs, now := c.runs("job"), time.Now()
			if len(runs) < least || len(runs) > most ||
				now.Sub(runs[0].ScheduledAt) > 12*time.Minute {
				t.Errorf(
					"%d runs are left, the oldest %s old; want %d to %d of the last ten minutes",
					len(runs), now.Sub(runs[0].ScheduledAt), least, most)
			}
		}
		time.Sleep(9 * time.Minute)
		left(26, 28)
		time.Sleep(10*time.Minute + 30*time.Second)
		left(30, 37)
		if got := c.outcomes("long"); len(got) != 1 || got[0] != "running" {
			t.Errorf("a run of twenty minutes: %v", got)
		}
		time.Sleep(4 * time.Minute)
		if got := c.outcomes("long"); len(got) != 1 || got[0] != "succeeded" {
			t.Errorf("a run that has ended just now: %v", got)
		}
		for _, stop := range stops {
			stop()
		}
	})
}

// pruning is a store that counts rounds and returns the answers of the test.
type pruning struct {
	storage.Store
	answers []func() (storage.Pruned, error) // afterwards nothing is left to prune
	asked   []time.Duration                  // since start
	after   []*storage.RunCursor
	kinds   []bool // whether the request was for runs of triggers
	start   time.Time
}

func (p *pruning) Prune(_ context.Context, _ uuid.UUID,
	r storage.PruneRequest) (storage.Pruned, error) {
	n := len(p.asked)
	p.asked, p.after = append(p.asked, time.Since(p.start)), append(p.after, r.After)
	p.kinds = append(p.kinds, r.Triggered)
	if n < len(p.answers) {
		return p.answers[n]()
	}
	return storage.Pruned{}, nil
}

// A replica gives up its round if another replica prunes or if the store fails.
func TestPruningPausesBetweenBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		next := &storage.RunCursor{CreatedAt: time.Now(), ID: uuid.New()}
		took := func(d time.Duration, p storage.Pruned, err error) func() (storage.Pruned, error) {
			return func() (storage.Pruned, error) { time.Sleep(d); return p, err }
		}
		store := &pruning{Store: c.store, start: time.Now(),
			answers: []func() (storage.Pruned, error){
				took(100*time.Millisecond, storage.Pruned{Runs: 1, Next: next}, nil),
				took(time.Millisecond, storage.Pruned{Runs: 1, Next: next}, nil),
				took(0, storage.Pruned{}, nil),
				took(0, storage.Pruned{Busy: true}, nil),
				took(0, storage.Pruned{}, errors.New("away")),
			}}
		o := c.options("a", takes(0))
		o.Store, o.KeepHistory = store, time.Hour
		stop := c.start(o)
		time.Sleep(5*time.Minute - time.Second)
		stop()
		want := []time.Duration{
			// a pause is four times as long as its batch, at least 20 ms
			time.Minute, time.Minute + 500*time.Millisecond, time.Minute + 521*time.Millisecond,
			2*time.Minute + 521*time.Millisecond, 3*time.Minute + 521*time.Millisecond,
			4*time.Minute + 521*time.Millisecond,
		}
		if len(store.asked) != len(want) {
			t.Fatalf("asked at %v, want %v", store.asked, want)
		}
		for i, at := range want {
			if store.asked[i] != at || (store.after[i] != nil) != (i == 1 || i == 2) {
				t.Errorf("asked at %s after %v, want %s", store.asked[i], store.after[i], at)
			}
		}
	})
}

// Rounds begin after the runs that earlier rounds have visited while it takes long to read from the
// oldest run.
func TestPruningRarelyReadsSlowlyFromTheOldestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		next := &storage.RunCursor{CreatedAt: time.Now(), ID: uuid.New()}
		store := &pruning{Store: c.store, start: time.Now(),
			answers: []func() (storage.Pruned, error){func() (storage.Pruned, error) {
				time.Sleep(2 * time.Second)
				return storage.Pruned{Runs: 1, Next: next}, nil
			}}}
		o := c.options("a", takes(0))
		o.Store, o.KeepHistory = store, time.Hour
		stop := c.start(o)
		time.Sleep(6 * time.Minute)
		stop()
		// the first batch takes two seconds, and the pause eight
		for i, want := range []struct {
			at    time.Duration
			after *storage.RunCursor
		}{{60, nil}, {70, next}, {130, next}, {190, next}, {250, next}, {310, nil}} {
			if i >= len(store.asked) || store.asked[i] != want.at*time.Second ||
				store.after[i] != want.after {
				t.Fatalf("asked at %v after %v, want %d s after %v as number %d", store.asked,
					store.after, want.at, want.after, i)
			}
		}
	})
}

func TestHistoryIsKeptForeverByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		store := &pruning{Store: c.store, start: time.Now()}
		o := c.options("a", takes(0))
		o.Store = store
		stop := c.start(o)
		time.Sleep(10 * time.Minute)
		stop()
		if len(store.asked) > 0 {
			t.Errorf("asked at %v", store.asked)
		}
	})
}

// Runs of triggers with a retention of their own are pruned after the others, until none is left.
// A round also deletes all old entries of the audit log.
func TestRunsOfTriggersArePrunedInTheSameRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		next := &storage.RunCursor{CreatedAt: time.Now(), ID: uuid.New()}
		answer := func(p storage.Pruned) func() (storage.Pruned, error) {
			return func() (storage.Pruned, error) { return p, nil }
		}
		store := &pruning{Store: c.store, start: time.Now(),
			answers: []func() (storage.Pruned, error){
				answer(storage.Pruned{Runs: 1, Next: next}),
				answer(storage.Pruned{Audited: 500}), answer(storage.Pruned{Audited: 1}),
				answer(storage.Pruned{Runs: 1, More: true}), answer(storage.Pruned{}),
				answer(storage.Pruned{Busy: true}), // the next round
			}}
		o := c.options("a", takes(0))
		o.Store, o.KeepHistory, o.KeepTriggered = store, time.Hour, time.Minute
		stop := c.start(o)
		time.Sleep(3*time.Minute - time.Second)
		stop()
		if want := []bool{false, false, false, true, true, false}; !slices.Equal(store.kinds,
			want) {
			t.Errorf("got requests for runs of triggers %v, want %v", store.kinds, want)
		}
	})
}
