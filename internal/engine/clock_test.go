package engine

import (
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
)

// stepped returns t as a wall clock that is ahead by d would have read it. The step does not affect
// the monotonic clock. No method of time.Time changes only one of the two.
func stepped(tb testing.TB, t time.Time, d time.Duration) time.Time {
	tb.Helper()
	moved := t
	const secondsShift = 30 // of the wall clock's seconds in time.Time's first word
	*(*uint64)(unsafe.Pointer(&moved)) += uint64(d/time.Second) << secondsShift
	if moved.Sub(t) != 0 || moved.Round(0).Sub(t.Round(0)) != d {
		tb.Fatalf("time.Time is not laid out as expected: %s and %s", t, moved)
	}
	return moved
}

func TestClusterTimeIgnoresStepsOfTheLocalClock(t *testing.T) {
	theirs := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, ahead := range []time.Duration{time.Hour, -time.Hour, 0} {
		// The wall clock was ahead at the measurement and has been set back since.
		var c clusterClock
		start := time.Now()
		c.measure(stepped(t, start.Add(-12*time.Second), ahead),
			stepped(t, start.Add(-10*time.Second), ahead), theirs)
		want := theirs.Add(11 * time.Second) // measured halfway between request and reply
		now, offset := c.now(), c.Offset()
		took := time.Since(start)
		if late := now.Sub(want); late < 0 || late > took || now.Location() != time.UTC {
			t.Errorf("clock set back by %s: cluster time %s, want %s", ahead, now, want)
		}
		if late := start.Add(offset).Sub(want); late < -took || late > took {
			t.Errorf("clock set back by %s: offset %s", ahead, offset)
		}
	}
}

func TestClusterTimeIsTheLocalTimeBeforeAMeasurement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clusterClock
		if got := c.now(); !got.Equal(time.Now()) || c.Offset() != 0 {
			t.Errorf("%s ahead by %s, want %s", got, c.Offset(), time.Now())
		}
	})
}

// A slow reading, for example after a wait for a connection, has a large error. The clock keeps its
// earlier reading until age makes that as uncertain.
func TestClusterTimeKeepsTheMostExactMeasurement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ahead = 3 * time.Second
		var c clusterClock
		now := time.Now()
		c.measure(now.Add(-2*time.Millisecond), now, now.Add(ahead-time.Millisecond))
		time.Sleep(5 * time.Second)
		now = time.Now()
		// the reading assumes that the reply took half of the 4 s
		c.measure(now.Add(-4*time.Second), now, now.Add(ahead))
		if got := c.Offset(); got != ahead {
			t.Errorf("ahead by %s after a slow reading, want %s", got, ahead)
		}
		if got, want := c.margin(now), 2*time.Millisecond; got < want ||
			got > want+time.Microsecond {
			t.Errorf("uncertain by %s after 5 s, want %s", got, want)
		}
		now = time.Now()
		c.measure(now.Add(-time.Millisecond), now, now.Add(ahead+time.Millisecond))
		if got, want := c.Offset(), ahead+1500*time.Microsecond; got != want {
			t.Errorf("ahead by %s after a quicker reading, want %s", got, want)
		}
	})
}

func TestClusterTimeAgesItsMeasurement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clusterClock
		now := time.Now()
		c.measure(now, now, now)
		time.Sleep(time.Hour) // the earlier reading is now uncertain by 720 ms
		now = time.Now()
		c.measure(now.Add(-time.Second), now, now)
		if got, want := c.Offset(), 500*time.Millisecond; got != want {
			t.Errorf("ahead by %s, want that of the new reading, %s", got, want)
		}
	})
}

// The store's clock may be set, or another server may replace it. A reading that contradicts the
// known offset replaces it, even if the reading is uncertain.
func TestClusterTimeFollowsAStepOfTheStoresClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clusterClock
		now := time.Now()
		c.measure(now, now, now)
		c.measure(now.Add(-time.Second), now.Add(time.Second), now.Add(time.Minute))
		if got := c.Offset(); got != time.Minute {
			t.Errorf("ahead by %s after a step of a minute", got)
		}
	})
}
