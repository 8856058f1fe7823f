package engine

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// The count of a span does not depend on the span that was counted before.
func TestSpanCount(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	parse := func(spec schedule.Spec) schedule.Schedule {
		t.Helper()
		s, err := schedule.Parse(spec, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	seconds := parse(schedule.Every(time.Second))
	var span spanCount
	for _, test := range []struct {
		schedule     schedule.Schedule
		after, until time.Duration
		first        time.Duration
		number       int
	}{
		{schedule.Schedule{}, 0, time.Hour, -1, 0},
		{seconds, 0, 5 * time.Second, time.Second, 5},
		{seconds, time.Second, 5 * time.Second, 2 * time.Second, 4},
		{seconds, time.Second, 3 * time.Second, 2 * time.Second, 2},
		{parse(schedule.Every(2 * time.Second)), time.Second, 3 * time.Second, 2 * time.Second, 1},
		{parse(schedule.Every(time.Minute)), time.Second, 3 * time.Second, time.Minute, 0},
		{parse(schedule.At(start.Add(time.Second))), 0, time.Minute, time.Second, 1},
		{parse(schedule.At(start.Add(time.Second))), time.Second, time.Minute, -1, 0},
		{seconds, 0, 24 * time.Hour, time.Second, maxMisfireWeight},
	} {
		for range 2 {
			first, n := span.of(test.schedule, start.Add(test.after), start.Add(test.until))
			var want time.Time
			if test.first >= 0 {
				want = start.Add(test.first)
			}
			if !first.Equal(want) || n != test.number {
				t.Errorf("%s, %s to %s: got %d from %s, want %d from %s", test.schedule, test.after,
					test.until, n, first, test.number, want)
			}
		}
	}
}
