// Package speedtest holds in tests that nothing takes longer than it may, on
// machines that are busy with something else, and under the race detector.
package speedtest

import (
	"math"
	"syscall"
	"testing"
	"time"
)

// Within10ms holds that something takes under ten milliseconds. Of some tries
// the fastest counts.
func Within10ms(t testing.TB, name string, do func()) {
	t.Helper()
	Within(t, name, 10*time.Millisecond, do)
}

// Within holds that something takes less than limit, or this process less than limit of the
// processors meanwhile. Of some tries the fastest counts.
func Within(t testing.TB, name string, limit time.Duration, do func()) {
	t.Helper()
	limit *= slowdown
	fastest := time.Hour
	for range 10 {
		begun, used := time.Now(), processorTime()
		do()
		took := min(time.Since(begun), processorTime()-used)
		if fastest = min(fastest, took); fastest < limit {
			return
		}
	}
	t.Errorf("%s: %s, want under %s", name, fastest, limit)
}

// processorTime returns the processor time of this process, or the largest duration if the system
// does not say it.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return math.MaxInt64
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
