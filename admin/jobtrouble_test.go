package admin

import (
	"testing"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestTroubleOfAJob checks which firing the page of a job explains, and how many it counts.
func TestTroubleOfAJob(t *testing.T) {
	many := make([]jobs.State, recentOfJob)
	for i := range many {
		many[i] = jobs.Missed
	}
	for name, c := range map[string]struct {
		states []jobs.State // newest first
		title  string       // "": none
		at     int          // index of the firing
		row    int
		least  bool
		badge  string
	}{
		"never ran": {nil, "", 0, 0, false, ""},
		"succeeded": {[]jobs.State{jobs.Running, jobs.Succeeded, jobs.Failed},
			"", 0, 0, false, ""},
		"cancelled": {[]jobs.State{jobs.Cancelled, jobs.Failed},
			"", 0, 0, false, ""},
		"failed": {[]jobs.State{jobs.Failed, jobs.Succeeded},
			"Why the last run failed", 0, 1, false, "last firing failed"},
		"runs again": {[]jobs.State{jobs.Waiting, jobs.Running, jobs.TimedOut},
			"Why the last run timed out", 2, 1, false, "last firing timed out"},
		"skipped twice": {[]jobs.State{jobs.Skipped, jobs.Waiting, jobs.Skipped, jobs.Succeeded},
			"Why the last firing was skipped", 0, 2, false, "last 2 firings skipped"},
		"skipped and failed": {[]jobs.State{jobs.Skipped, jobs.Failed, jobs.Skipped},
			"Why the last firing was skipped", 0, 3, false, "last 3 firings without success"},
		"lost at first": {[]jobs.State{jobs.Lost},
			"Why the last run was lost", 0, 1, false, "last firing lost"},
		"missed for long": {many, "Why the last firing was missed", 0, recentOfJob, true,
			"last 20 or more firings missed"},
	} {
		var d JobDetail
		for i, state := range c.states {
			d.Recent = append(d.Recent, storage.Record{ID: id(i + 1), State: state})
		}
		got := d.Trouble()
		if got == nil || c.title == "" {
			if got != nil || c.title != "" {
				t.Errorf("%s: got %+v, want %q", name, got, c.title)
			}
			continue
		}
		if got.Title() != c.title || got.Run.ID != id(c.at+1) || got.Row != c.row ||
			got.Least != c.least || got.Badge() != c.badge {
			t.Errorf("%s: got %q, %q, %+v, want %+v", name, got.Title(), got.Badge(), got, c)
		}
	}
}
