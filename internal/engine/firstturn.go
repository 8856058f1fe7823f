package engine

import (
	"context"
	"sync"

	"github.com/holdfast-dev/holdfast/jobs"
)

// firstTurn lets the firings of one job that this replica begins make their first tries in the
// order in which they left the queue. So the oldest of several late firings of a job starts first.
// A firing that waits for its turn already has a worker, unless it began early, and its slots.
// These may be the last ones. So a turn ends when its firing gives its own back: otherwise the two
// firings could wait for each other. The zero value belongs to a firing that waits for no other
// one. It may be used concurrently.
type firstTurn struct {
	before *firing // the firing of the same job whose first try has not ended; nil if there is none

	mu   sync.Mutex
	over bool
	done chan struct{} // closed when the first try has ended; nil until another firing waits
}

// lineUp puts the firing behind the last one of its job whose first try has not ended. It is called
// by the dispatcher's goroutine only. Firings of a job that may overlap do not wait.
func (f *firing) lineUp() {
	if f.entry.Overlap == jobs.OverlapAllow {
		return
	}
	f.turn.before = f.entry.trying.Swap(f)
}

// isBehind reports whether another firing of the job has its first try before this one.
func (f *firing) isBehind() bool { return f.turn.before != nil && !f.turn.before.turn.isOver() }

// awaitTurn waits until the first try of the firing before has ended, or until ctx ends.
func (f *firing) awaitTurn(ctx context.Context) {
	before := f.turn.before
	f.turn.before = nil // otherwise each firing would keep all earlier ones in memory
	if before == nil {
		return
	}
	select {
	case <-before.turn.ended():
	case <-ctx.Done():
	}
}

// giveBack returns the worker and the slots, if the firing has them, and ends its turn.
func (f *firing) giveBack() {
	f.endTurn()
	f.worker.giveBack()
}

// endTurn is called when the first try of the firing has ended. It may be called again.
func (f *firing) endTurn() {
	t := &f.turn
	t.before = nil
	t.mu.Lock()
	if !t.over && t.done != nil {
		close(t.done)
	}
	t.over = true
	t.mu.Unlock()
	f.entry.trying.CompareAndSwap(f, nil)
}

func (t *firstTurn) isOver() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}

// ended returns a channel that is closed when the first try has ended.
func (t *firstTurn) ended() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done == nil {
		t.done = make(chan struct{})
		if t.over {
			close(t.done)
		}
	}
	return t.done
}
