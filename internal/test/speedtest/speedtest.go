// Package speedtest checks upper bounds of running times in tests, also on busy machines and under
// the race detector.
package speedtest

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/internal/test/race"
)

// Within10ms fails the test unless do takes less than ten milliseconds in the fastest of some
// tries.
func Within10ms(t testing.TB, name string, do func()) {
	t.Helper()
	Within(t, name, 10*time.Millisecond, do)
}

// slowdown returns the factor by which the race detector slows tests down.
func slowdown() time.Duration {
	if race.Enabled {
		return 20
	}
	return 1
}

// Within fails the test unless do takes less than limit in the fastest of some tries. A try also
// passes if its thread uses less than limit of processor time. So other programs and the garbage
// collector in the background do not count. do uses one goroutine.
func Within(t testing.TB, name string, limit time.Duration, do func()) {
	t.Helper()
	limit *= slowdown()
	if took := fastest(t, limit, do); took >= limit {
		t.Errorf("%s: %s, want under %s", name, took, limit)
	}
}

// WithinOrLike is like Within, but do may also take up to three times as long as ordinary. Both are
// timed in turns, so on a busy machine both take longer than usual.
func WithinOrLike(t testing.TB, name string, limit time.Duration, ordinary, do func()) {
	t.Helper()
	const (
		tries = 40
		least = 10 // fewer would compare a slow try of ordinary with a fast one of do
	)
	limit *= slowdown()
	took, usual := time.Hour, time.Hour
	for try := range tries {
		if took = min(took, once(t, do)); took < limit {
			return
		}
		usual = min(usual, once(t, ordinary))
		if try+1 >= least && took < 3*usual {
			return
		}
	}
	t.Errorf("%s: %s, want under %s or three times %s", name, took, limit, usual)
}

// Times is how many times as large as the small input of [Linear] the large one is.
const Times = 8

// Linear fails the test if a time grows much faster than the size of the input. The input of large
// is Times as large as that of small. Both are timed in turns, so on a busy machine both take
// longer than usual. A linear time grows by the factor Times, and a quadratic one by its square.
func Linear(t testing.TB, small, large func()) {
	t.Helper()
	const (
		most    = 3 * Times
		tries   = 20
		least   = 3 // the first try fills caches
		nothing = time.Millisecond
	)
	shorter, longer := time.Hour, time.Hour
	for try := range tries {
		shorter, longer = min(shorter, once(t, small)), min(longer, once(t, large))
		if try+1 >= least && (longer < nothing || longer < most*shorter) {
			return
		}
	}
	t.Errorf("%s, and %s for %d times the input, want under %d times as long", shorter, longer,
		Times, most)
}

// fastest returns how long do takes in the fastest of ten tries, or in the first one that takes
// less than enough.
func fastest(t testing.TB, enough time.Duration, do func()) time.Duration {
	t.Helper()
	best := time.Hour
	for range 10 {
		if best = min(best, once(t, do)); best < enough {
			break
		}
	}
	return best
}

// once returns how long do takes, or its processor time if that is less.
func once(t testing.TB, do func()) time.Duration {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start, used := time.Now(), threadTime(t)
	do()
	return min(time.Since(start), threadTime(t)-used)
}

// threadTime returns the processor time of this thread.
func threadTime(t testing.TB) time.Duration {
	t.Helper()
	var used unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Nano())
}
