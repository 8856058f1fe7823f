package cluster

import (
	"slices"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// The number of entries that the page shows of each list. The JSON has all.
const (
	shownRunning  = 6
	shownFailures = 12
	shownPauses   = 5
	shownBusy     = 12 // resources
)

// maxHops bounds the waiting runs that the overview lists.
const maxHops = 12

// WaitTreesShown returns the trees of waiting runs that the page lists.
func (o *Overview) WaitTreesShown() []*locks.WaitTree {
	shown, _ := locks.CutTrees(waitTreesOf(o), maxHops)
	return shown
}

// waitTreesOf returns all trees of waiting runs. It builds them once, because the page shows the
// first ones and counts the others.
func waitTreesOf(o *Overview) []*locks.WaitTree {
	if o.trees == nil {
		o.trees = locks.NewWaitTrees(o.Waiting, o.holders)
	}
	return o.trees
}

// WaitTreesMore returns the number of waiting runs that the page does not list.
func (o *Overview) WaitTreesMore() int {
	_, left := locks.CutTrees(waitTreesOf(o), maxHops)
	return left
}

// Title returns the title for the browser's tab.
func (o *Overview) Title() string {
	if o.Status.Severity == Neutral {
		return "Overview"
	}
	return o.Status.Headline
}

// Busy returns the resources that are held or waited for. It finds them once, because the page
// lists the first ones and counts all.
func (o *Overview) Busy() []locks.ResourceState {
	if o.busy == nil {
		for _, r := range o.Resources {
			if r.State != locks.HeldNot || r.Waiting > 0 {
				o.busy = append(o.busy, r)
			}
		}
	}
	return o.busy
}

// BusyShown returns the busy resources that the page lists, in the order of Busy: those with the
// most waiting runs, then those that are held longest.
func (o *Overview) BusyShown() []locks.ResourceState {
	return locks.MostUrgent(o.Busy(), shownBusy)
}

// BusyMore returns the number of busy resources that the page does not list.
func (o *Overview) BusyMore() int { return max(0, len(o.Busy())-shownBusy) }

// RunningMore returns the number of running runs that the page does not list.
func (o *Overview) RunningMore() int { return max(0, len(o.Running)-shownRunning) }

// shownNext is the number of next firings that the page lists.
const shownNext = 6

// NextShown returns the next firings that the page lists.
func (o *Overview) NextShown() []Firing { return o.Next[:min(len(o.Next), shownNext)] }

// NextBriefly returns the first of the next firings, for narrow windows.
func (o *Overview) NextBriefly() []Firing { return o.Next[:min(len(o.Next), 3)] }

// Unsuccessful returns the number of runs of the last 24 h that did not succeed.
func (o *Overview) Unsuccessful() int { return o.failed + o.skipped }

// UnsuccessfulWords counts the runs of the last 24 h that started and did not succeed, and those
// that did not start: "8 failed, 2 skipped".
func (o *Overview) UnsuccessfulWords() string {
	return words.Count(o.failed) + " failed, " + words.Count(o.skipped) + " skipped"
}

// Workers returns the number of workers of live replicas, and how many of them run a run. It counts
// the running runs, because the numbers of the last heartbeats are older than the list of runs.
func (o *Overview) Workers() (workers Workers) {
	live := make(map[string]bool, len(o.Replicas))
	for _, r := range o.Replicas {
		if r.Live() {
			workers.Total += r.Workers
			live[r.Name] = true
		}
	}
	for _, run := range o.Running {
		if live[run.Replica] {
			workers.Busy++
		}
	}
	workers.Busy = min(workers.Busy, workers.Total)
	return workers
}

// Workers counts workers.
type Workers struct{ Busy, Total int }

// Live returns the number of live replicas.
func (o *Overview) Live() (n int) {
	for _, r := range o.Replicas {
		if r.Live() {
			n++
		}
	}
	return n
}

// Expected returns the number of replicas that should be live.
func (o *Overview) Expected() int {
	_, total := replicaCounts(o.Replicas)
	return total
}

// StartingRuns returns the number of replicas that can start runs.
func (o *Overview) StartingRuns() (n int) {
	for _, r := range o.Replicas {
		if r.StartsRuns() {
			n++
		}
	}
	return n
}

// PausesShown returns the pauses that the page lists.
func (o *Overview) PausesShown() []storage.Pause {
	return o.Pauses[:min(len(o.Pauses), shownPauses)]
}

// AllPaused reports whether all jobs are paused.
func (o *Overview) AllPaused() bool {
	return slices.ContainsFunc(o.Pauses, func(p storage.Pause) bool {
		return p.Target.Kind == storage.TargetAll
	})
}

// PausesMore returns the number of pauses that the page does not list.
func (o *Overview) PausesMore() int { return len(o.Pauses) - len(o.PausesShown()) }

// FailuresShown returns the jobs with the most failures, which the page lists.
func (o *Overview) FailuresShown() []JobFailures {
	return o.FailuresByJob[:min(len(o.FailuresByJob), shownFailures)]
}

// FailuresMore returns the number of jobs with failures that the page does not list.
func (o *Overview) FailuresMore() int { return len(o.FailuresByJob) - len(o.FailuresShown()) }
