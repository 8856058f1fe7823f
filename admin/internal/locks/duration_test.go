package locks

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func TestOldDurationsAreForgotten(t *testing.T) {
	var cache durations
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	found := map[string]storage.Typical{"removed": {Runs: 1}, "kept": {Runs: 2}}
	cache.put([]string{"removed", "kept"}, found, now)
	cache.put([]string{"kept"}, found, now.Add(durationLifetime))
	if len(cache.known) != 1 {
		t.Errorf("got durations of %d jobs, want those of the job that was queried again",
			len(cache.known))
	}
	if got, ok := cache.get("kept", now.Add(durationLifetime)); !ok || got.Runs != 2 {
		t.Errorf("got %+v and %t, want the durations of two runs", got, ok)
	}
}
