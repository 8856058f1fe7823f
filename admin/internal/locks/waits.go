package locks

import (
	"cmp"
	"slices"
	"time"
)

// Waits are the resources for which runs wait, for the template.
type Waits struct {
	Now   time.Time
	Nodes []*ResourceNode // those with the most waiting runs first
	Runs  int             // that wait for them
}

// NewWaits returns the resources of trees for which runs wait.
func NewWaits(now time.Time, kinds []*ResourceNode) Waits {
	w := Waits{Now: now}
	for _, kind := range kinds {
		for _, node := range kind.awaited() {
			w.Nodes, w.Runs = append(w.Nodes, node), w.Runs+len(node.Waiting)
		}
	}
	slices.SortStableFunc(w.Nodes, func(a, b *ResourceNode) int {
		return cmp.Compare(len(b.Waiting), len(a.Waiting))
	})
	return w
}
