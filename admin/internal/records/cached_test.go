package records

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestCachedIsRenewedBeforeItEnds checks that a request in the second half of the lifetime gets the
// cached result at once, and the next one a newer result.
func TestCachedIsRenewedBeforeItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, asked := time.Now(), 0
		var fail error
		c := NewCached(10*time.Second, func(ctx context.Context, now time.Time) (int, error) {
			asked++
			time.Sleep(time.Second) // by the clock of synctest
			return asked, errors.Join(fail, ctx.Err())
		})
		for _, step := range []struct {
			at     time.Duration // of the request
			want   int
			waits  time.Duration
			asked  int // after the request and all that it began
			fail   error
			failed bool
		}{
			{at: 0, want: 1, waits: time.Second, asked: 1},
			{at: 4 * time.Second, want: 1, asked: 1},
			{at: 6 * time.Second, want: 1, asked: 2},
			{at: 8 * time.Second, want: 2, asked: 2},
			{at: 12 * time.Second, want: 2, asked: 3, fail: errors.New("connection refused")},
			{at: 14 * time.Second, want: 2, asked: 4, fail: errors.New("connection refused")},
			{at: 17 * time.Second, waits: time.Second, asked: 5, failed: true,
				fail: errors.New("connection refused")},
			{at: 20 * time.Second, want: 6, waits: time.Second, asked: 6},
			{at: 40 * time.Second, want: 7, waits: time.Second, asked: 7}, // nobody asked
		} {
			time.Sleep(time.Until(began.Add(step.at)))
			fail = step.fail
			ctx, cancel := context.WithCancel(t.Context())
			sent := time.Now()
			got, err := c.Get(ctx, sent)
			cancel() // the end of the request does not end the query
			if waited := time.Since(sent); waited != step.waits || (err != nil) != step.failed ||
				err == nil && got != step.want {
				t.Errorf("at %s: %d (%v) after %s, want %d after %s", step.at, got, err, waited,
					step.want, step.waits)
			}
			time.Sleep(1500 * time.Millisecond)
			synctest.Wait()
			if asked != step.asked {
				t.Errorf("at %s: %d queries, want %d", step.at, asked, step.asked)
			}
		}
	})
}

// TestCostlyResultsAreRenewedLessOften requests a result every second. A query that takes 300 ms is
// sent every 30 s, and one that takes 10 ms every 8 s.
func TestCostlyResultsAreRenewedLessOften(t *testing.T) {
	for took, want := range map[time.Duration]int{10 * time.Millisecond: 8,
		300 * time.Millisecond: 2} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			c := NewQuietCached(func(context.Context, time.Time) (int, error) {
				asked++
				time.Sleep(took) // by the clock of synctest
				return asked, nil
			})
			for range 60 {
				if _, err := c.Get(t.Context(), time.Now()); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
				synctest.Wait()
			}
			if asked != want {
				t.Errorf("a query of %s was sent %d times in a minute, want %d", took, asked, want)
			}
		})
	}
}

// TestSoonWaitsForATenthOfTheTime asks for a result that takes 5 s. A caller with 3 s left gets
// none after 0.3 s. The query goes on, so a later caller gets its result.
func TestSoonWaitsForATenthOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := NewCached(time.Minute, func(ctx context.Context, now time.Time) (int, error) {
			asked++
			time.Sleep(5 * time.Second) // by the clock of synctest
			return asked, ctx.Err()
		})
		expect := func(left time.Duration, now time.Time, want int, waits time.Duration) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), left)
			defer cancel()
			sent := time.Now()
			got, ok, err := c.Soon(ctx, now, time.Minute, time.Hour)
			waited := time.Since(sent)
			if err != nil || got != want || ok != (want > 0) || waited != waits {
				t.Errorf("got %d (%t, %v) after %s, want %d after %s", got, ok, err, waited, want,
					waits)
			}
		}
		expect(3*time.Second, time.Now(), 0, 300*time.Millisecond)
		// It waits for the first query, and gets its result although that is younger.
		expect(time.Minute, time.Now().Add(-time.Second), 1, 4700*time.Millisecond)
		expect(3*time.Second, time.Now(), 1, 0)
		time.Sleep(time.Minute)
		expect(3*time.Second, time.Now(), 1, 0) // and renews it
		time.Sleep(5 * time.Second)
		synctest.Wait()
		expect(3*time.Second, time.Now(), 2, 0)
		if asked != 2 {
			t.Errorf("got %d queries, want 2", asked)
		}
	})
}

// TestSoonReturnsTheErrorOfTheQuery lets the query fail after a second. The next caller queries
// again.
func TestSoonReturnsTheErrorOfTheQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, broken := 0, errors.New("connection refused")
		c := NewCached(time.Minute, func(context.Context, time.Time) (int, error) {
			asked++
			time.Sleep(time.Second) // by the clock of synctest
			return asked, broken
		})
		for want := range 2 {
			began := time.Now()
			_, ok, err := c.Soon(t.Context(), began, time.Minute, time.Hour)
			waited := time.Since(began)
			if ok || !errors.Is(err, broken) || waited != time.Second || asked != want+1 {
				t.Errorf("got %t, %v after %s and %d queries, want the error after a second", ok,
					err, waited, asked)
			}
		}
	})
}

// TestQueryThatPanicsEnds lets a query panic. Callers that wait for it get an error, and the next
// one queries again.
func TestQueryThatPanicsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		panics := true
		c := NewCached(time.Minute, func(context.Context, time.Time) (int, error) {
			time.Sleep(time.Second) // by the clock of synctest
			if panics {
				panic("no answer")
			}
			return 1, nil
		})
		go func() {
			defer func() { _ = recover() }()
			_, _ = c.Get(t.Context(), time.Now())
		}()
		synctest.Wait()
		if _, ok, err := c.Soon(t.Context(), time.Now(), time.Minute, time.Hour); ok || err == nil {
			t.Errorf("got %t (%v), want an error", ok, err)
		}
		panics = false
		if got, err := c.Get(t.Context(), time.Now()); got != 1 || err != nil {
			t.Errorf("got %d (%v), want 1", got, err)
		}
	})
}

// TestSoonWithoutAResultInTime asks for a result whose query ends with an error of its context,
// because it takes too long, or because its caller has gone. Soon returns neither a result nor an
// error.
func TestSoonWithoutAResultInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCached(time.Minute, func(ctx context.Context, _ time.Time) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		expect := func(waits time.Duration) {
			t.Helper()
			began := time.Now()
			_, ok, err := c.Soon(t.Context(), began, time.Minute, time.Hour)
			if waited := time.Since(began); ok || err != nil || waited != waits {
				t.Errorf("got %t (%v) after %s, want nothing after %s", ok, err, waited, waits)
			}
		}
		expect(longTimeout)
		other, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		go func() { _, _ = c.Get(other, time.Now()) }()
		synctest.Wait()
		expect(time.Second)
	})
}
