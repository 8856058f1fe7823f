package admin

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// jobTrouble is a job's last firing that has ended, if it did not succeed.
type jobTrouble struct {
	Run   storage.Record
	Row   int  // how many of the last firings ended without a success in between
	Least bool // there may be more
	Mixed bool // they ended in several states
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
			trouble.Mixed = trouble.Mixed || run.State != trouble.Run.State
		}
	}
	if trouble != nil {
		trouble.Least = len(d.Recent) >= recentOfJob
	}
	return trouble
}

// Badge says how the last firings ended: "last 3 firings skipped".
func (t *jobTrouble) Badge() string {
	state := words.State(t.Run.State)
	if t.Mixed {
		state = "without success"
	}
	if t.Row == 1 {
		return "last firing " + state
	}
	if t.Least {
		return fmt.Sprintf("last %s or more firings %s", words.Count(t.Row), state)
	}
	return fmt.Sprintf("last %s firings %s", words.Count(t.Row), state)
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
