package cluster

import (
	"slices"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// The number of entries that the page shows of each list. The JSON has all.
const (
	shownRunning       = 12
	shownBlockedGroups = 20
	shownFree          = 300
	shownFailures      = 12
	shownPauses        = 5
)

// Title returns the title for the browser's tab, with the number of problems.
func (o *Overview) Title() string {
	switch {
	case o.Error != "":
		return "Store does not answer"
	case len(o.Problems) > 0 && o.Problems[0].Severity == Alarm:
		return "Alarm"
	case len(o.Waiting) > 0:
		return words.Figure(len(o.Waiting), "waiting", "waiting")
	}
	return "Overview"
}

// Busy returns the resources that are held or waited for.
func (o *Overview) Busy() []locks.ResourceState {
	var busy []locks.ResourceState
	for _, r := range o.Resources {
		if r.State != locks.HeldNot || r.Waiting > 0 {
			busy = append(busy, r)
		}
	}
	return busy
}

// BlockedGroups groups the waiting runs by the resource that blocks them. The group with the oldest
// run is first. Runs that nothing blocks are last.
func (o *Overview) BlockedGroups() []locks.BlockedGroup {
	return locks.NewBlockedGroups(o.Waiting, o.holders)
}

// BlockedGroupsShown returns the groups that the page lists.
func (o *Overview) BlockedGroupsShown() []locks.BlockedGroup {
	all := o.BlockedGroups()
	return all[:min(len(all), shownBlockedGroups)]
}

// BlockedGroupsMore returns the number of groups that the page does not list.
func (o *Overview) BlockedGroupsMore() int {
	return len(o.BlockedGroups()) - len(o.BlockedGroupsShown())
}

// Free returns the resources that are neither held nor waited for.
func (o *Overview) Free() []locks.ResourceState { return o.Resources[len(o.Busy()):] }

// FreeShown returns the free resources that the page lists.
func (o *Overview) FreeShown() []locks.ResourceState {
	return o.Free()[:min(len(o.Free()),
		shownFree)]
}

// FreeMore returns the number of free resources that the page does not list.
func (o *Overview) FreeMore() int { return len(o.Free()) - len(o.FreeShown()) }

// RunningShown returns the oldest running runs, which the page lists.
func (o *Overview) RunningShown() []storage.Record {
	return o.Running[:min(len(o.Running), shownRunning)]
}

// RunningMore returns the number of running runs that the page does not list.
func (o *Overview) RunningMore() int { return len(o.Running) - len(o.RunningShown()) }

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
