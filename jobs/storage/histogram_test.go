package storage_test

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func TestDelayBuckets(t *testing.T) {
	const last = len(storage.Delays{}) - 1
	for delay, want := range map[time.Duration]int{
		-time.Hour: 0, 0: 0, 10*time.Millisecond - 1: 0, 10 * time.Millisecond: 1,
		999 * time.Millisecond: 6, time.Second: 7, time.Hour - 1: last - 1,
		time.Hour: last, 1000 * time.Hour: last,
	} {
		if got := storage.DelayBucket(delay); got != want {
			t.Errorf("a delay of %s is in bucket %d, want %d", delay, got, want)
		}
	}
}

func TestPercentileOfDelays(t *testing.T) {
	for name, c := range map[string]struct {
		delays  storage.Delays
		percent int
		bound   time.Duration
		above   bool
	}{
		"no runs":        {percent: 95},
		"one run":        {storage.Delays{3: 1}, 95, 100 * time.Millisecond, false},
		"at the edge":    {storage.Delays{0: 95, 6: 5}, 95, 10 * time.Millisecond, false},
		"above the edge": {storage.Delays{0: 94, 6: 6}, 95, time.Second, false},
		"all of them":    {storage.Delays{0: 99, 6: 1}, 100, time.Second, false},
		"without bound":  {storage.Delays{0: 1, 15: 1}, 95, time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			if bound, above := c.delays.Percentile(c.percent); bound != c.bound ||
				above != c.above {
				t.Errorf("got %s, above %t; want %s, %t", bound, above, c.bound, c.above)
			}
		})
	}
}

func TestMergeTallied(t *testing.T) {
	later := time.Date(2026, 3, 1, 12, 15, 0, 0, time.UTC)
	earlier := later.Add(-storage.QuarterLength)
	quarters := storage.MergeTallies([]storage.Tally{
		{Quarter: later, State: jobs.Failed, Delay: 2, Runs: 1},
		{Quarter: earlier, State: jobs.Skipped, Delay: storage.NotStarted, Runs: 4},
		{Quarter: later.In(time.FixedZone("", 3600)), State: jobs.Failed, Delay: 3, Runs: 2},
		{Quarter: later, State: jobs.Succeeded, Delay: 2, Runs: 5},
	})
	if len(quarters) != 2 || !quarters[0].From.Equal(earlier) ||
		quarters[0].Runs[jobs.Skipped] != 4 || quarters[0].Delays.Runs() != 0 ||
		quarters[1].Runs[jobs.Failed] != 3 || quarters[1].Runs[jobs.Succeeded] != 5 ||
		quarters[1].Delays != (storage.Delays{2: 6, 3: 2}) {
		t.Errorf("quarters %+v", quarters)
	}
}
