package locks

import (
	"slices"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// maxListedRuns is the number of runs in the list beside the picture.
const maxListedRuns = 100

// ListedRun is a run in words.
type ListedRun struct {
	storage.RunInterval
	Words string
}

// Listed returns the newest runs of the picture, each once.
func (t *Timeline) Listed() []ListedRun {
	seen := make(map[string]bool)
	var all []ListedRun
	for _, l := range t.Lanes {
		for _, s := range l.Runs[:min(len(l.Runs), maxListedRuns)] {
			if seen[s.Run.String()] {
				continue
			}
			seen[s.Run.String()] = true
			all = append(all, ListedRun{RunInterval: s})
		}
	}
	slices.SortStableFunc(all, func(a, b ListedRun) int {
		return b.CreatedAt.Compare(a.CreatedAt)
	})
	all = all[:min(len(all), maxListedRuns)]
	for i := range all {
		all[i].Words = charts.RunWords(all[i].RunInterval, t.Now)
	}
	return all
}
