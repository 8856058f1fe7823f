package engine

import (
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// wakes tell the upkeep that there may be something to do before its next turn. They save time
// only: the replicas look in every interval anyway. They may be used concurrently.
type wakes struct {
	signal                chan struct{} // holds a value when there may be something
	dependents, backfills atomic.Bool   // runs of them may be added
	// the jobs that others run after, as this replica last knew them
	dependencies atomic.Pointer[map[string]bool]

	adoptable atomic.Bool   // the last heartbeat found that there may be runs to adopt
	found     chan struct{} // holds a value when a heartbeat has found that
}

func newWakes() *wakes {
	return &wakes{signal: make(chan struct{}, 1), found: make(chan struct{}, 1)}
}

// heard is called with each heartbeat. adoptable is that of storage.HeartbeatReply.
func (w *wakes) heard(adoptable bool) {
	if w.adoptable.Store(adoptable); adoptable {
		signal(w.found)
	}
}

// announced is called when an action was announced, which may be a trigger.
func (w *wakes) announced() { signal(w.signal) }

// left is called when this replica has nothing more to do for a firing.
func (w *wakes) left(f *firing) {
	if f.runOfBackfill() {
		w.backfills.Store(true)
		signal(w.signal)
	}
}

// succeeded is called when a run of the job has succeeded on this replica.
func (w *wakes) succeeded(job string) {
	if dependencies := w.dependencies.Load(); dependencies != nil && (*dependencies)[job] {
		w.dependents.Store(true)
		signal(w.signal)
	}
}

// dependsOn sets the jobs that others run after.
func (w *wakes) dependsOn(dependents []storage.Dependent) {
	names := map[string]bool{}
	for _, d := range dependents {
		for _, name := range d.After {
			names[name] = true
		}
	}
	w.dependencies.Store(&names)
}
