// Package speedtest holds in tests that nothing takes longer than it may, on
// machines that are busy with something else, and under the race detector.
package speedtest

import (
	"testing"
	"time"
)

// Within10ms holds that something takes under ten milliseconds. Of some tries
// the fastest counts.
func Within10ms(t testing.TB, name string, do func()) {
	t.Helper()
	const limit = slowdown * 10 * time.Millisecond
	fastest := time.Hour
	for range 10 {
		begun := time.Now()
		do()
		if fastest = min(fastest, time.Since(begun)); fastest < limit {
			return
		}
	}
	t.Errorf("%s: %s, want under %s", name, fastest, limit)
}
