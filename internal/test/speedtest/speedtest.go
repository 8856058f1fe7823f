// Package speedtest holds in tests that nothing takes longer than it may, on
// machines that are busy with something else, and under the race detector.
package speedtest

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Within10ms holds that something takes under ten milliseconds. Of some tries
// the fastest counts.
func Within10ms(t testing.TB, name string, do func()) {
	t.Helper()
	Within(t, name, 10*time.Millisecond, do)
}

// Within holds that something takes less than limit, or its thread less than limit of a processor:
// neither other programs nor the garbage collector in the background count. do uses one goroutine.
// Of some tries the fastest counts.
func Within(t testing.TB, name string, limit time.Duration, do func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	limit *= slowdown
	fastest := time.Hour
	for range 10 {
		begun, used := time.Now(), threadTime(t)
		do()
		took := min(time.Since(begun), threadTime(t)-used)
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
