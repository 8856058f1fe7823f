package retry_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/retry"
)

var errBusy = errors.New("busy")

func TestDoWaitsBetweenTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		policy := retry.Policy{Attempts: 5, Delay: 100 * time.Millisecond,
			Backoff: retry.Exponential}
		err := retry.Do(t.Context(), policy, func(context.Context) error {
			at = append(at, time.Since(start))
			if len(at) < 4 {
				return errBusy
			}
			return nil
		})
		want := []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond,
			700 * time.Millisecond}
		if err != nil || !slices.Equal(at, want) {
			t.Errorf("tries at %v (%v), want %v", at, err, want)
		}
	})
}

func TestDoReturnsExhausted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last := errors.New("still busy")
		tries := 0
		err := retry.Do(t.Context(), retry.Policy{Attempts: 3, Delay: time.Second},
			func(context.Context) error {
				if tries++; tries == 3 {
					return last
				}
				return errBusy
			})
		var exhausted *retry.ExhaustedError
		if !errors.As(err, &exhausted) {
			t.Fatalf("got %v", err)
		}
		if exhausted.Attempts != 3 || exhausted.Waited != 2*time.Second || !errors.Is(err, last) ||
			errors.Is(err, errBusy) {
			t.Errorf("got %+v, want 3 attempts in 2s and the last error", exhausted)
		}
	})
}

func TestDoRetriesOnlyRetryableErrors(t *testing.T) {
	final := errors.New("refused")
	tries := 0
	err := retry.Do(t.Context(), retry.Policy{Attempts: 5}, func(context.Context) error {
		if tries++; tries == 2 {
			return final
		}
		return errBusy
	}, retry.If(func(err error) bool { return errors.Is(err, errBusy) }))
	if err != final || tries != 2 {
		t.Errorf("%v after %d tries", err, tries)
	}
}

func TestHookSeesEachFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []retry.Failure
		policy := retry.Policy{Attempts: 3, Delay: time.Second, Backoff: retry.Exponential}
		_ = retry.Do(t.Context(), policy, func(context.Context) error { return errBusy },
			retry.OnFailure(func(f retry.Failure) error {
				seen = append(seen, f)
				return nil
			}))
		want := []retry.Failure{
			{Attempt: 1, Err: errBusy, Next: time.Second},
			{Attempt: 2, Err: errBusy, Waited: time.Second, Next: 2 * time.Second},
			{Attempt: 3, Err: errBusy, Waited: 3 * time.Second, Last: true},
		}
		if !slices.Equal(seen, want) {
			t.Errorf("got %+v\nwant %+v", seen, want)
		}
	})
}

func TestHookEndsDo(t *testing.T) {
	stop := errors.New("job was removed")
	tries := 0
	err := retry.Do(t.Context(), retry.Policy{Attempts: 5, Delay: time.Hour},
		func(context.Context) error {
			tries++
			return errBusy
		}, retry.OnFailure(func(retry.Failure) error { return stop }))
	var exhausted *retry.ExhaustedError
	if !errors.As(err, &exhausted) || exhausted.End != stop || tries != 1 ||
		!errors.Is(err, errBusy) || !errors.Is(err, stop) {
		t.Errorf("%v after %d tries", err, tries)
	}
	if !strings.Contains(err.Error(), "job was removed") {
		t.Errorf("the error does not say why it ended: %v", err)
	}
}

func TestDoEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shutdown := errors.New("shutdown")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(90*time.Second, func() { cancel(shutdown) })
		err := retry.Do(ctx, retry.Policy{Attempts: 100, Delay: time.Minute},
			func(context.Context) error { return errBusy })
		var exhausted *retry.ExhaustedError
		if !errors.As(err, &exhausted) || exhausted.Attempts != 2 ||
			exhausted.Waited != 90*time.Second {
			t.Fatalf("got %+v", err)
		}
		if !errors.Is(err, shutdown) || !errors.Is(err, errBusy) {
			t.Errorf("cause or last failure missing: %v", err)
		}
	})
}

func TestDoWithAnEndedContextTriesNothing(t *testing.T) {
	shutdown := errors.New("shutdown")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(shutdown)
	err := retry.Do(ctx, retry.Policy{Attempts: 2}, func(context.Context) error {
		t.Error("calls of op: got one, want none")
		return nil
	})
	if err != shutdown {
		t.Errorf("got %v", err)
	}
}

func TestDoRefusesABadPolicy(t *testing.T) {
	for want, policy := range map[string]retry.Policy{
		"retry policy: attempts: found -1, expected 0 or more": {Attempts: -1},
		"retry policy: jitter: found 2, expected 0 to 1":       {Attempts: 2, Jitter: 2},
	} {
		err := retry.Do(t.Context(), policy, func(context.Context) error {
			t.Errorf("%+v: got a try, want none", policy)
			return nil
		})
		if err == nil || err.Error() != want {
			t.Errorf("%+v: got %v, want %s", policy, err, want)
		}
	}
	forgotten := retry.Policy{Delay: time.Second} // without a limit, it would try once
	if err := retry.Do(t.Context(), forgotten, func(context.Context) error {
		return nil
	}); err == nil {
		t.Error("policy with a delay and no limit: got no error, want one")
	}
}
