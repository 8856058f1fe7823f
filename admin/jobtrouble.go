package admin

import (
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// jobTrouble is a job's last firing that has ended, if it did not succeed.
type jobTrouble struct {
	Run   storage.Record
	Row   int  // how many of the last firings ended without a success in between
	Least bool // there may be more
}

// Trouble returns the last firing that has ended, unless it succeeded or an operator cancelled it.
func (d *JobDetail) Trouble() *jobTrouble {
	var trouble *jobTrouble
	for _, run := range d.Recent {
		switch {
		case !run.State.Final():
		case run.State == jobs.Succeeded || run.State == jobs.Cancelled:
			return trouble
		case trouble == nil:
			trouble = &jobTrouble{Run: run, Row: 1}
		default:
			trouble.Row++
		}
	}
	if trouble != nil {
		trouble.Least = len(d.Recent) >= recentOfJob
	}
	return trouble
}

// Title asks why the firing ended as it did.
func (t *jobTrouble) Title() string {
	switch t.Run.State {
	case jobs.Failed:
		return "Why the last run failed"
	case jobs.TimedOut:
		return "Why the last run timed out"
	case jobs.Lost:
		return "Why the last run was lost"
	case jobs.Missed:
		return "Why the last firing was missed"
	}
	return "Why the last firing was skipped"
}
