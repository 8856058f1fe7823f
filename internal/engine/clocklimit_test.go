package engine

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

func TestStepOfTheLocalClockIsDetectedAtOnce(t *testing.T) {
	var log bytes.Buffer
	clock := &clusterClock{}
	limit := &clockLimit{clock: clock, most: 10 * time.Second, log: zerolog.New(&log)}
	now := time.Now()
	if err := limit.check(stepped(t, now, time.Hour)); err != nil {
		t.Errorf("before it was measured: %v", err)
	}
	clock.measure(now, now.Add(2*time.Millisecond), now.Round(0))
	for _, step := range []struct {
		by   time.Duration
		says string // "" if the clock is right
	}{
		{0, ""}, {9 * time.Second, ""}, {-9 * time.Second, ""},
		{11 * time.Second, "its clock is 11.001s ahead of the store's, limit is 10s"},
		{time.Hour, "its clock is 1h0m0.001s ahead of the store's, limit is 10s"}, {10 * time.Second, ""},
		{-11 * time.Second, "its clock is 10.999s behind the store's, limit is 10s"}, {0, ""},
	} {
		err := limit.check(stepped(t, now, step.by))
		if (err != nil) != (step.says != "") || err != nil && err.Error() != step.says {
			t.Errorf("stepped by %s: %v, want %q", step.by, err, step.says)
		}
	}
	for text, want := range map[string]int{
		"clock is off by more than its limit, starts suspended": 2,
		"clock is within its limit again":                       2} {
		if got := strings.Count(log.String(), text); got != want {
			t.Errorf("%q is in the log %d times, want %d:\n%s", text, got, want, log.String())
		}
	}
}

// If a reading takes two seconds, its error is up to one second.
func TestUncertaintyOfASlowReplyIsNoOffset(t *testing.T) {
	clock := &clusterClock{}
	limit := &clockLimit{clock: clock, most: 10 * time.Second, log: zerolog.Nop()}
	now := time.Now()
	for ahead, right := range map[time.Duration]bool{
		11*time.Second - time.Millisecond: true, 11*time.Second + time.Millisecond: false,
		-11*time.Second + time.Millisecond: true, -11*time.Second - time.Millisecond: false,
	} {
		clock.measure(now.Add(-time.Second), now.Add(time.Second), now.Add(ahead))
		if err := limit.check(now); (err == nil) != right {
			t.Errorf("ahead by %s: %v", ahead, err)
		}
	}
	limit.most = 0
	clock.measure(now, now, now.Add(24*time.Hour))
	if err := limit.check(now); err != nil {
		t.Errorf("without a limit: %v", err)
	}
}
