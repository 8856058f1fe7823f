package jobstest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// RunLoginAttempts checks a counter of failures. first and second are two connections to the same
// empty counts, or one connection twice.
func RunLoginAttempts(t *testing.T, open func(t *testing.T) (first, second storage.LoginAttempts)) {
	for name, hold := range map[string]func(t *testing.T, a *loginAttempts){
		"what was never counted is nothing": func(_ *testing.T, a *loginAttempts) {
			a.counts(0, 0, "x", "y")
		},
		"each key has its own count, in the order that is asked": func(_ *testing.T, a *loginAttempts) {
			a.add(time.Hour, "x", "y")
			a.add(time.Hour, "y")
			a.counts(1, 2, "x", "y")
			a.counts(2, 1, "y", "x")
			a.counts(0, 2, "other", "y")
		},
		"another replica sees and counts on": func(_ *testing.T, a *loginAttempts) {
			a.add(time.Hour, "x", "y")
			a.first, a.second = a.second, a.first
			a.add(time.Hour, "x")
			a.counts(2, 1, "x", "y")
		},
		"the first failure opens the window, later ones don't lengthen it": func(t *testing.T,
			a *loginAttempts) {
			a.add(time.Hour, "x")
			a.add(100*time.Hour, "x")
			if left := a.failures("x")[0].Left; left > time.Hour || left < 59*time.Minute {
				t.Errorf("%s of the window left", left)
			}
		},
		"at the end of the window all is forgotten, and the next opens another": func(t *testing.T,
			a *loginAttempts) {
			a.add(time.Hour, "y")
			a.add(50*time.Millisecond, "x")
			for a.failures("x")[0].Count > 0 {
				if t.Context().Err() != nil {
					t.Fatal("old failed login attempt: got it counted, want it forgotten")
				}
			}
			a.counts(0, 1, "x", "y")
			a.add(time.Hour, "x", "y")
			a.counts(1, 2, "x", "y")
			if left := a.failures("x")[0].Left; left < 59*time.Minute {
				t.Errorf("%s of the second window left", left)
			}
		},
		"none is lost where many count at once": func(t *testing.T, a *loginAttempts) {
			var counting sync.WaitGroup
			for n := range 20 {
				counting.Go(func() {
					keys := []string{"x", "y", fmt.Sprint("own-", n)}
					if n%2 == 0 {
						slices.Reverse(keys)
					}
					store := []storage.LoginAttempts{a.first, a.second}[n/2%2]
					if err := store.AddFailure(t.Context(), time.Hour, keys...); err != nil {
						t.Error(err)
					}
				})
			}
			counting.Wait()
			a.counts(20, 20, "x", "y")
		},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := open(t)
			hold(t, &loginAttempts{t: t, first: first, second: second})
		})
	}
}

type loginAttempts struct {
	t             *testing.T
	first, second storage.LoginAttempts
}

func (a *loginAttempts) add(window time.Duration, keys ...string) {
	a.t.Helper()
	if err := a.first.AddFailure(a.t.Context(), window, keys...); err != nil {
		a.t.Fatal(err)
	}
}

func (a *loginAttempts) failures(keys ...string) []storage.Failures {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), testTimeout)
	defer cancel()
	found, err := a.second.CountFailures(ctx, keys...)
	if err != nil || len(found) != len(keys) {
		a.t.Fatalf("got %+v (%v), want %d keys", found, err, len(keys))
	}
	return found
}

// counts fails the test unless the two keys have these failures.
func (a *loginAttempts) counts(one, two int, keys ...string) {
	a.t.Helper()
	found := a.failures(keys...)
	if found[0].Count != one || found[1].Count != two {
		a.t.Errorf("failures of %v: %+v, want %d and %d", keys, found, one, two)
	}
	for _, f := range found {
		if (f.Count == 0) != (f.Left == 0) {
			a.t.Errorf("got %+v, want both or neither of count and time", f)
		}
	}
}
