package retry

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestZeroPolicyTriesOnce(t *testing.T) {
	series := Policy{}.Start(time.Now())
	if delay, ok := series.Next(time.Now()); ok {
		t.Errorf("a second try in %v", delay)
	}
}

func TestSeriesCountsTriesAndTime(t *testing.T) {
	start := time.Now()
	series := Policy{Attempts: 3, Delay: time.Second}.Start(start)
	for i := range 2 {
		if delay, ok := series.Next(start); !ok || delay != time.Second {
			t.Fatalf("after failure %d: %v, %v", i+1, delay, ok)
		}
	}
	if _, ok := series.Next(start.Add(5 * time.Second)); ok {
		t.Fatal("fourth try: got one, want none")
	}
	cause := errors.New("cause")
	err := series.Exhausted(start.Add(5*time.Second), cause, nil)
	if err.Attempts != 3 || err.Waited != 5*time.Second || !errors.Is(err, cause) {
		t.Errorf("got %+v, want 3 attempts in 5s with their cause", err)
	}
	if got, want := err.Error(), "gave up after 3 tries in 5s: cause"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestMaxElapsedLimitsTheStartOfTries(t *testing.T) {
	start := time.Now()
	tests := []struct {
		name  string
		at    time.Duration // of the failure
		delay time.Duration
		more  bool
	}{
		{"the try begins before the limit", 3 * time.Second, time.Second, true},
		{"the try begins at the limit", 4 * time.Second, time.Second, true},
		{"the try would begin after the limit", 4500 * time.Millisecond, 500 * time.Millisecond, true},
		{"the last try began at the limit", 5 * time.Second, 0, false},
		{"the limit has passed", time.Minute, 0, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			series := Policy{Elapsed: 5 * time.Second, Delay: time.Second}.Start(start)
			if delay, more := series.Next(start.Add(test.at)); more != test.more ||
				delay != test.delay {
				t.Errorf("another try: %v in %v, want %v in %v", more, delay, test.more,
					test.delay)
			}
		})
	}
}

func TestCopyOfASeriesReturnsTheSameDelays(t *testing.T) {
	start := time.Now()
	series := Policy{Attempts: 100, Delay: time.Second, Jitter: 1}.Start(start)
	series.Next(start)
	same := *series
	for range 50 {
		want, _ := series.Next(start)
		if got, _ := same.Next(start); got != want {
			t.Fatalf("the copy returned %v, want %v", got, want)
		}
	}
}

// No series that a valid policy allows goes on for ever or beyond its limits.
func TestSeriesEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := Policy{
			Attempts: rapid.IntRange(0, 50).Draw(t, "attempts"),
			Delay:    time.Duration(rapid.IntRange(1, 1000).Draw(t, "delay")) * time.Millisecond,
			MaxDelay: time.Duration(rapid.IntRange(0, 1000).Draw(t, "max")) * time.Millisecond,
			Elapsed: time.Duration(rapid.IntRange(0, 10_000).
				Draw(t, "elapsed")) * time.Millisecond,
			Backoff: rapid.SampledFrom(Backoffs()).Draw(t, "backoff"),
		}
		if policy.Validate() != nil {
			return
		}
		start := time.Now()
		now := start
		series := policy.Start(now, WithSource(rand.NewPCG(0, 0)))
		for tries := 1; ; tries++ {
			delay, more := series.Next(now)
			if !more {
				return
			}
			now = now.Add(delay)
			if policy.Attempts > 0 && tries >= policy.Attempts {
				t.Fatalf("try %d of %d", tries+1, policy.Attempts)
			}
			if policy.Elapsed > 0 && now.Sub(start) > policy.Elapsed {
				t.Fatalf("a try begins %v after the first", now.Sub(start))
			}
			if tries > 20_000 {
				t.Fatal("series without limits: got no end, want one")
			}
		}
	})
}

func TestLongestIsTheSumOfTheDelays(t *testing.T) {
	const limit = time.Hour
	for _, c := range []struct {
		policy Policy
		want   time.Duration
	}{
		{Policy{}, 0}, {Policy{Attempts: 1, Delay: time.Second}, 0}, {Policy{Attempts: 4, Delay: time.Second, Jitter: 1}, 3 * time.Second},
		{Policy{Attempts: 5, Delay: 500 * time.Millisecond, Backoff: Exponential, MaxDelay: 2 * time.Second}, 5500 * time.Millisecond},
		{Policy{Attempts: 100, Delay: time.Hour, Backoff: Exponential}, limit}, {Policy{Elapsed: time.Minute, Delay: time.Second}, time.Minute},
		{Policy{Attempts: 100, Elapsed: time.Minute, Delay: time.Second}, time.Minute}, {Policy{Elapsed: 2 * time.Hour}, limit},
		{Policy{Attempts: 1_000_001, Delay: time.Millisecond}, 1000 * time.Second}, {Policy{Attempts: 1_000_000_000}, 0},
	} {
		if got := c.policy.Longest(limit); got != c.want {
			t.Errorf("%+v waits for %s at the longest, want %s", c.policy, got, c.want)
		}
	}
}
