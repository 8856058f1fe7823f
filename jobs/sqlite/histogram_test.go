package sqlite_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// A part of a histogram has the runs of its quarters of an hour.
func TestHistogramInParts(t *testing.T) {
	s := open(t)
	at := func(hour, minute int) time.Time {
		return time.Date(2026, 1, 5, hour, minute, 0, 0, time.UTC)
	}
	for _, row := range []storage.Tally{
		{Quarter: at(9, 45), State: jobs.Succeeded, Delay: 0, Runs: 1000},
		{Quarter: at(10, 0), State: jobs.Succeeded, Delay: 0, Runs: 1},
		{Quarter: at(11, 45), State: jobs.Succeeded, Delay: 0, Runs: 2},
		{Quarter: at(11, 45), State: jobs.Skipped, Delay: storage.NotStarted, Runs: 3},
		{Quarter: at(12, 0), State: jobs.Succeeded, Delay: 4, Runs: 5},
		{Quarter: at(15, 45), State: jobs.Failed, Delay: 4, Runs: 6},
		{Quarter: at(16, 0), State: jobs.Succeeded, Delay: 0, Runs: 1000},
	} {
		if _, err := s.Writer().Exec("INSERT INTO holdfast_tallies VALUES (?, ?, ?, ?)",
			row.Quarter.UnixMicro(), row.State, row.Delay, row.Runs); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Histogram(t.Context(), at(10, 0), at(16, 0), 2*time.Hour)
	want := []storage.Quarter{
		{From: at(10, 0), Runs: map[jobs.State]int{jobs.Succeeded: 3, jobs.Skipped: 3},
			Delays: storage.Delays{0: 3}},
		{From: at(12, 0), Runs: map[jobs.State]int{jobs.Succeeded: 5},
			Delays: storage.Delays{4: 5}},
		{From: at(14, 0), Runs: map[jobs.State]int{jobs.Failed: 6},
			Delays: storage.Delays{4: 6}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v (%v), want %+v", got, err, want)
	}
}
