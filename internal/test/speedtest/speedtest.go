// Package speedtest checks upper bounds of running times in tests, also on busy machines and under
// the race detector.
package speedtest

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Within10ms fails the test unless do takes less than ten milliseconds in the fastest of some
// tries.
func Within10ms(t testing.TB, name string, do func()) {
	t.Helper()
	Within(t, name, 10*time.Millisecond, do)
}

// Within fails the test unless do takes less than limit in the fastest of some tries. A try also
// passes if its thread uses less than limit of processor time. So other programs and the garbage
// collector in the background do not count. do uses one goroutine.
func Within(t testing.TB, name string, limit time.Duration, do func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	limit *= slowdown
	fastest := time.Hour
	for range 10 {
		start, used := time.Now(), threadTime(t)
		do()
		took := min(time.Since(start), threadTime(t)-used)
		if fastest = min(fastest, took); fastest < limit {
			return
		}
	}
	t.Errorf("%s: %s, want under %s", name, fastest, limit)
}

// threadTime returns the processor time of this thread.
func threadTime(t testing.TB) time.Duration {
	t.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
