package jobs

import (
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
)

// stepped returns t as it would have been read had the wall clock been ahead
// by d: the monotonic clock does not know of such steps, and no method of
// time.Time moves one of the two alone.
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

func TestClusterTimeDoesNotFollowStepsOfThisMachinesClock(t *testing.T) {
	theirs := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, ahead := range []time.Duration{time.Hour, -time.Hour, 0} {
		// The wall clock was ahead when it was measured, and has been set back since.
		var c clusterClock
		begun := time.Now()
		c.measure(stepped(t, begun.Add(-12*time.Second), ahead), stepped(t, begun.Add(-10*time.Second), ahead), theirs)
		want := theirs.Add(11 * time.Second) // measured in the middle of the two
		now, offset := c.now(), c.Offset()
		took := time.Since(begun)
		if late := now.Sub(want); late < 0 || late > took || now.Location() != time.UTC {
			t.Errorf("clock set back by %s: cluster time %s, want %s", ahead, now, want)
		}
		if late := begun.Add(offset).Sub(want); late < -took || late > took {
			t.Errorf("clock set back by %s: offset %s", ahead, offset)
		}
	}
}

func TestClusterTimeIsThisMachinesUntilItIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clusterClock
		if got := c.now(); !got.Equal(time.Now()) || c.Offset() != 0 {
			t.Errorf("%s ahead by %s, want %s", got, c.Offset(), time.Now())
		}
	})
}
