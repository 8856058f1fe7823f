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
	Here       bool // the list is of this state
}

// stateChips links the states of jobs: those of their active or last runs, and whether they are
// paused.
func stateChips(p param.Set, f jobFields) []jobLink {
	link := func(name, state, paused string) jobLink {
		return jobLink{name, p.With("/jobs", "state", state, "paused", paused, "after", "",
			"before", ""), f.State == state && f.Paused == paused}
	}
	chips := []jobLink{link("All", "", "")}
	states := []jobs.State{jobs.Running, jobs.Waiting, jobs.Failed, jobs.TimedOut, jobs.Lost,
		jobs.Skipped, jobs.Missed}
	if shown := jobs.State(f.State); shown != "" && !slices.Contains(states, shown) {
		states = append(states, shown) // from a link elsewhere
	}
	for _, state := range states {
		name := words.Title(words.State(state))
		if state.Final() {
			name = "Last run " + words.State(state)
		}
		chips = append(chips, link(name, string(state), ""))
	}
	return append(chips, link("Paused", "", "yes"), link("Not paused", "", "no"))
}
