package charts

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// quartersOf returns consecutive quarters of an hour that end at noon.
func quartersOf(runs ...map[jobs.State]int) (quarters []storage.Quarter) {
	from := storage.QuarterOf(noon).Add(-time.Duration(len(runs)-1) * storage.QuarterLength)
	for i, r := range runs {
		quarters = append(quarters, storage.Quarter{Runs: r,
			From: from.Add(time.Duration(i) * storage.QuarterLength)})
	}
	return quarters
}

// end is the end of the last of these quarters.
func end() time.Time { return storage.QuarterOf(noon).Add(storage.QuarterLength) }

// Failed runs are above the axis and skipped runs below it, on one scale. A single run among many
// has a bar of 3 pixels.
func TestFailedAndSkippedRunsAreOnTwoSides(t *testing.T) {
	c := NewHistogram(quartersOf(
		map[jobs.State]int{jobs.Failed: 1, jobs.Lost: 1, jobs.Skipped: 200, jobs.Succeeded: 5},
		map[jobs.State]int{jobs.Succeeded: 5}, map[jobs.State]int{jobs.Missed: 100}),
		storage.QuarterLength, end(), noon)
	want := []HistogramBar{{Y: 33, H: 3, Class: "failed"}, {Y: 36, H: 36, Class: "skipped"},
		{Y: 36, H: 18, Class: "skipped"}}
	bars := c.Unsuccessful.Bars
	if len(bars) != len(want) || c.Unsuccessful.Words != "2 failed, 300 skipped" {
		t.Fatalf("%s: bars %+v", c.Unsuccessful.Words, bars)
	}
	for i, b := range bars {
		if b.Y != want[i].Y || b.H != want[i].H || b.Class != want[i].Class {
			t.Errorf("bar %+v, want %+v", b, want[i])
		}
	}
	if bars[0].X != 0 || bars[2].X < 66 || bars[2].X > 67 {
		t.Errorf("bars at %s and %s", bars[0].X, bars[2].X)
	}
}

func TestHistogramIsAddedUpByHour(t *testing.T) {
	quarters := quartersOf(map[jobs.State]int{jobs.Succeeded: 1}, map[jobs.State]int{}, nil,
		map[jobs.State]int{jobs.Succeeded: 2, jobs.TimedOut: 1}, nil, nil, nil, nil,
		map[jobs.State]int{jobs.Cancelled: 4})
	quarters[0].Delays, quarters[3].Delays = storage.Delays{0: 1}, storage.Delays{6: 3}
	hours := NewHistogram(quarters, storage.QuarterLength, end(), noon).Hours
	if len(hours) != 2 || hours[0].Succeeded.Runs != 3 || hours[0].Failed.Runs != 1 ||
		hours[0].Delay != "at most 1.0 s" || hours[1].Cancelled.Runs != 4 || hours[1].Delay != "" {
		t.Errorf("hours %+v", hours)
	}
	if NewHistogram(nil, storage.QuarterLength, end(), noon) != nil {
		t.Error("a histogram of nothing")
	}
}
