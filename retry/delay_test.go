package retry

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDelays(t *testing.T) {
	ms := func(values ...int) []time.Duration {
		var out []time.Duration
		for _, v := range values {
			out = append(out, time.Duration(v)*time.Millisecond)
		}
		return out
	}
	tests := []struct {
		name   string
		policy Policy
		want   []time.Duration
	}{
		{"constant by default", Policy{Delay: 20 * time.Millisecond}, ms(20, 20, 20)},
		{"constant above its maximum", Policy{Delay: 20 * time.Millisecond, MaxDelay: 15 * time.Millisecond}, ms(15, 15)},
		{"exponential", Policy{Delay: 10 * time.Millisecond, Backoff: Exponential}, ms(10, 20, 40, 80)},
		{"exponential up to its maximum", Policy{Delay: 10 * time.Millisecond, MaxDelay: 25 * time.Millisecond, Backoff: Exponential}, ms(10, 20, 25, 25)},
		{"no delay", Policy{Backoff: Exponential}, ms(0, 0, 0)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := delays(test.policy, len(test.want)); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestReverseExponentialShortensAndRestarts(t *testing.T) {
	got := delays(Policy{Backoff: ReverseExponential}, 31)
	want := []time.Duration{
		1024 * time.Millisecond, 512 * time.Millisecond, 1024 * time.Millisecond / 3,
		256 * time.Millisecond,
	}
	if !slices.Equal(got[:4], want) {
		t.Errorf("got %v, want %v", got[:4], want)
	}
	for i := 1; i < 15; i++ {
		if got[i] >= got[i-1] {
			t.Errorf("delay %d is %v, no shorter than the %v before it", i+1, got[i], got[i-1])
		}
	}
	if got[14] != 1024*time.Millisecond/15 {
		t.Errorf("the 15th delay, where n mod 15 is 0, is %v", got[14])
	}
	if !slices.Equal(got[15:30], got[:15]) || got[30] != got[0] {
		t.Errorf("it did not start over: %v", got)
	}
}

func TestExponentialDoesNotOverflow(t *testing.T) {
	policy := Policy{Delay: time.Second, Backoff: Exponential}
	for _, failures := range []int{34, 35, 64, 65, 1000, math.MaxInt} {
		if got := policy.delay(failures); got < time.Duration(1<<33) {
			t.Errorf("after %d failures the delay is %v", failures, got)
		}
	}
}

func TestJitterStaysWithinItsShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := Policy{
			Delay:   time.Duration(rapid.Int64Min(0).Draw(t, "delay")),
			Jitter:  rapid.Float64Range(0, 1).Draw(t, "jitter"),
			Backoff: rapid.SampledFrom(Backoffs()).Draw(t, "backoff"),
		}
		failures := rapid.IntRange(1, 100).Draw(t, "failures")
		random := rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "random")
		full := policy.delay(failures)
		got := policy.jittered(full, func() float64 { return random })
		least := float64(full) * (1 - policy.Jitter)
		if got < 0 || got > full || float64(got) < least-1-least*1e-9 {
			t.Fatalf("%v became %v with jitter %v", full, got, policy.Jitter)
		}
	})
}

func TestFullJitterSpreadsOverTheWholeDelay(t *testing.T) {
	policy := Policy{Attempts: 1001, Delay: time.Second, Jitter: 1}
	start := time.Now()
	series := policy.Start(start, WithSource(rand.NewPCG(1, 2)))
	var tenths [10]int
	for range 1000 {
		d, ok := series.Next(start)
		if !ok || d < 0 || d > time.Second {
			t.Fatalf("delay %v, %v", d, ok)
		}
		tenths[min(9, d*10/time.Second)]++
	}
	for i, n := range tenths {
		if n < 50 || n > 150 {
			t.Errorf("%d of 1000 delays fall into tenth %d: %v", n, i, tenths)
		}
	}
}

func delays(p Policy, n int) []time.Duration {
	var out []time.Duration
	for failures := 1; failures <= n; failures++ {
		out = append(out, p.delay(failures))
	}
	return out
}
