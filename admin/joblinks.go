package admin

import (
	"slices"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
)

// jobLink is a link to the list of jobs in one state.
type jobLink struct {
	Name, Path string
	Here       bool   // the list is of this state
	Jobs       int    // number of jobs
	Class      string // of the number
}

// stateChips links the states of jobs: those of their active or last runs, and whether they are
// paused. It also returns the number of jobs of the list, if a chip has it.
func stateChips(p param.Set, f jobFields, counts map[jobFields]int) (chips []jobLink, total int) {
	link := func(name, state, paused string) jobLink {
		chip := jobLink{Name: name, Path: p.With("/jobs", "state", state, "paused", paused,
			"skip", "", "after", "", "before", ""), Here: f.State == state && f.Paused == paused,
			Jobs: counts[jobFields{State: state, Paused: paused}]}
		switch jobs.State(state) {
		case jobs.Failed, jobs.TimedOut, jobs.Lost, jobFailing, jobLastFailed:
			chip.Class = "bad"
		case jobs.Skipped, jobs.Missed:
			chip.Class = "warn"
		}
		if chip.Jobs == 0 {
			chip.Class = ""
		}
		return chip
	}
	chips = []jobLink{link("All", "", ""),
		link("Running", string(jobs.Running), ""), link("Waiting", string(jobs.Waiting), ""),
		link("Failing", jobFailing, "")}
	if f.State == jobLastFailed { // from a link of the overview
		chips = append(chips, link("Last run failed, timed out or lost", jobLastFailed, ""))
	}
	ended := []jobs.State{jobs.Failed, jobs.TimedOut, jobs.Lost, jobs.Skipped, jobs.Missed}
	if shown := jobs.State(f.State); slices.Contains(jobs.States(), shown) && shown.Final() &&
		!slices.Contains(ended, shown) {
		ended = append(ended, shown) // from a link elsewhere
	}
	for _, state := range ended {
		chips = append(chips, link("Last run "+words.State(state), string(state), ""))
	}
	chips = append(chips, link("Never run", jobNeverRun, ""), link("Paused", "", "yes"),
		link("Not paused", "", "no"))
	for _, chip := range chips {
		if chip.Here {
			total = chip.Jobs
		}
	}
	return chips, total
}
