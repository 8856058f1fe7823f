package locks

import (
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// shownChainRuns bounds the waiting runs of the chains on one page.
const shownChainRuns = 60

// WaitChains are the runs that wait for locks, each below the run that it waits for.
type WaitChains struct {
	Trees []*WaitTree
	Runs  int // in all trees
	Roots int // holders for which runs wait
	More  int // runs that the page does not list
	Axis  charts.WaitAxis
}

// WaitLimit says until when a run waits.
type WaitLimit struct {
	Words string    // before the time; "" if nothing is known
	At    time.Time // zero if the words need no time
}

// newWaitChains arranges the waiting runs that have a blocker. With a filter it leaves out trees in
// which no run waits for a resource that passes it.
func newWaitChains(now time.Time, g *index, set Set, waiting []storage.Record,
	f Filter) *WaitChains {
	var blocked []storage.Record
	for _, run := range waiting {
		if run.BlockedBy != nil {
			blocked = append(blocked, run)
		}
	}
	c := &WaitChains{}
	var matching []*WaitTree
	for _, tree := range NewWaitTrees(blocked, NewHeldLocks(set)) {
		if !anyWaiter(tree.Waiters, func(w *Waiter) bool {
			resource, known := records.BlockedOn(w.Record)
			return known && g.passes(f, resource)
		}) {
			continue
		}
		matching, c.Runs = append(matching, tree), c.Runs+tree.Runs
		if tree.Holder != (locking.Owner{}) {
			c.Roots++
		}
	}
	c.Trees, c.More = CutTrees(matching, shownChainRuns)
	c.addBars(now)
	return c
}

// addBars adds the times of the trees: how long each lock is held, and until when each run waits.
func (c *WaitChains) addBars(now time.Time) {
	oldest := now
	var ends []time.Time
	for _, tree := range c.Trees {
		if tree.Lock != nil && tree.Lock.Since.Before(oldest) {
			oldest = tree.Lock.Since
		}
		anyWaiter(tree.Waiters, func(w *Waiter) bool {
			if since := records.Since(w.Record); since.Before(oldest) {
				oldest = since
			}
			w.Limit, w.end = NewWaitLimit(now, w.Record)
			ends = append(ends, w.end)
			return false
		})
	}
	c.Axis = charts.NewWaitAxis(now, oldest, ends)
	for _, tree := range c.Trees {
		if tree.Lock != nil {
			tree.Bar = c.Axis.Bar(tree.Lock.Since, time.Time{})
		}
		anyWaiter(tree.Waiters, func(w *Waiter) bool {
			w.Bar = c.Axis.Bar(records.Since(w.Record), w.end)
			return false
		})
	}
}

// NewWaitLimit says until when a waiting run with a blocker waits, and returns the time if there is
// one.
func NewWaitLimit(now time.Time, run storage.Record) (WaitLimit, time.Time) {
	end := run.WaitEnd
	switch {
	case end == nil:
		return WaitLimit{Words: "limit unknown"}, time.Time{}
	case end.At.IsZero():
		return WaitLimit{Words: "no limit"}, time.Time{}
	case !end.At.After(now):
		return WaitLimit{Words: "gives up soon"}, time.Time{}
	case end.Next:
		return WaitLimit{"until its next firing,", end.At}, end.At
	case end.Estimated:
		return WaitLimit{"gives up about", end.At}, end.At
	default:
		return WaitLimit{"gives up at", end.At}, end.At
	}
}

// anyWaiter calls f for the waiters and those behind them, until one call returns true, and reports
// whether one did.
func anyWaiter(waiters []*Waiter, f func(*Waiter) bool) bool {
	for _, w := range waiters {
		if f(w) || anyWaiter(w.Waiters, f) {
			return true
		}
	}
	return false
}

// UsualWords says how long the holder's runs usually take, or returns "".
func (t *WaitTree) UsualWords() string {
	if t.Lock == nil || t.Lock.typical.Runs < unusualRuns {
		return ""
	}
	return "usually " + words.Took(t.Lock.typical.Median)
}

// Over reports whether the holder has the lock for much longer than usual.
func (t *WaitTree) Over(now time.Time) bool {
	return t.Lock != nil && IsUnusual(now.Sub(t.Lock.Since), t.Lock.typical)
}
