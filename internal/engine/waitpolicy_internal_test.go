package engine

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/retry"
)

// waitOutcome is how the wait of a firing ended.
type waitOutcome struct {
	after  time.Duration
	tries  int
	reason jobs.Reason // "" if it did not end within the limit of the test
}

// follow waits by the policy for a lock that stays held, at most for ten minutes. With rests, the
// firing rests between its questions, and other events wake it after wake. It returns the number of
// its questions besides.
func follow(w *waitPolicy, rests bool, wake time.Duration) (o waitOutcome, asked int) {
	b := &refusal{reason: reasons.LockHeld, blocker: &jobs.Blocker{Resource: "public/orders"}}
	start := time.Now()
	for time.Since(start) < 10*time.Minute {
		asked++
		delay, end := w.next(b, time.Now())
		if end != "" {
			return waitOutcome{time.Since(start), w.tries.Attempts(), end}, asked
		}
		if !rests {
			time.Sleep(delay)
			continue
		}
		time.Sleep(min(w.rest(b, time.Now()), wake))
		w.catchUp(b, time.Now())
	}
	return waitOutcome{tries: w.tries.Attempts()}, asked
}

// With run_all, the wait of a firing has no limit if fewer scheduled times are left than may run
// late. The next scheduled time must not end it.
func TestExtendedWaitBeforeTheLastScheduledTimeHasNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, wait := range map[string]retry.Policy{
			"tries left":    {Elapsed: time.Hour, Delay: time.Second},
			"no tries left": {Attempts: 2, Delay: time.Second},
		} {
			e := entryEvery(t, time.Minute, jobs.MisfireSkip)
			now := time.Now().UTC()
			twice, err := schedule.ParseText(fmt.Sprintf("quartz:0 0,1 %d %d %d ? %d",
				now.Hour(), now.Day(), now.Month(), now.Year()),
				time.UTC)
			if err != nil {
				t.Fatal(err)
			}
			e.Schedule, e.Wait, e.MisfireBy.LockHeld = twice, wait, jobs.MisfireRunAll
			f := &firing{pending: pending{entry: e, attempt: 1, since: time.Now(),
				Firing: storage.Firing{Job: e.Name, ScheduledAt: time.Now()}}}
			got, _ := follow(newWaitPolicy(f, time.Now()), false, 0)
			if got.reason != "" {
				t.Errorf("%s: the wait ended after %s with %s", name, got.after, got.reason)
			}
			time.Sleep(time.Until(time.Now().Truncate(24 * time.Hour).Add(24 * time.Hour)))
		}
	})
}

// The wait of a firing that rests has as many tries as that of a firing which asks at each of them,
// and ends at the same time for the same reason.
func TestWaitWithRestsHasTheTriesOfItsPolicy(t *testing.T) {
	constant := retry.Policy{Attempts: 20, Delay: 100 * time.Millisecond}
	for name, c := range map[string]struct {
		policy   retry.Policy
		interval time.Duration
		change   func(*firing)
		asks     int // how often the firing that rests asks at most; 0: not checked
	}{
		"tries":       {constant, time.Hour, nil, 4},
		"next time":   {constant, time.Second, nil, 3},
		"elapsed":     {retry.Policy{Elapsed: 5 * time.Second, Delay: 10 * time.Millisecond}, time.Hour, nil, 8},
		"long delays": {retry.Policy{Attempts: 4, Delay: time.Minute}, time.Hour, nil, 4},
		"exponential": {retry.Policy{Attempts: 12, Delay: time.Millisecond,
			Backoff: retry.Exponential, MaxDelay: time.Second}, time.Hour, nil, 0},
		"jitter": {retry.Policy{Attempts: 50, Delay: 100 * time.Millisecond, Jitter: 1}, time.Hour,
			nil, 0},
		"reverse":   {retry.Policy{Attempts: 40, Backoff: retry.ReverseExponential}, time.Hour, nil, 0},
		"no delays": {retry.Policy{Attempts: 10}, time.Hour, nil, 0},
		"deadline": {constant, time.Hour, func(f *firing) {
			f.entry.Deadline = 1234 * time.Millisecond
		}, 4},
		"extended": {constant, time.Minute, func(f *firing) {
			f.entry.MisfireBy.LockHeld = jobs.MisfireRunOnce
		}, 62},
		"manual": {constant, time.Minute, func(f *firing) { f.Key = "by hand" }, 610},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := entryEvery(t, c.interval, jobs.MisfireSkip)
				e.Wait = c.policy
				f := &firing{pending: pending{entry: e, attempt: 1, since: time.Now(),
					Firing: storage.Firing{Job: e.Name, ScheduledAt: time.Now()}}}
				if c.change != nil {
					c.change(f)
				}
				polls := newWaitPolicy(f, time.Now())
				polls.setLimits() // so that all three have the same jitter
				rests, woken := *polls, *polls
				var want, got, other waitOutcome
				var asked int
				var all sync.WaitGroup
				all.Go(func() { want, _ = follow(polls, false, 0) })
				all.Go(func() { got, asked = follow(&rests, true, time.Hour) })
				all.Go(func() { other, _ = follow(&woken, true, 130*time.Millisecond) })
				all.Wait()
				if got != want {
					t.Errorf("the wait with rests: %+v, want %+v", got, want)
				}
				if other != want {
					t.Errorf("the wait with rests and wakes: %+v, want %+v", other, want)
				}
				if c.asks > 0 && asked > c.asks {
					t.Errorf("the firing asked %d times, want at most %d", asked, c.asks)
				}
			})
		})
	}
}
