package rules

import (
	"slices"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// PauseOver returns the active pause that covers a job of the group, or nil. It prefers the job's
// own pause to that of its group, and that to the pause of everything.
func PauseOver(pauses []storage.Pause, job, group string) *storage.Pause {
	for _, kind := range []storage.TargetKind{storage.TargetJob, storage.TargetGroup,
		storage.TargetAll} {
		i := slices.IndexFunc(pauses, func(p storage.Pause) bool {
			return p.Target.Kind == kind && p.ResumedAt == nil && p.Covers(job, group)
		})
		if i >= 0 {
			return &pauses[i]
		}
	}
	return nil
}
