package pages

import (
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// runList is a list of runs for the template.
type runList struct {
	Now  time.Time
	Runs []storage.Record
	One  bool               // all runs have the same job
	Can  permission.Allowed // actions to which each run has links
	Pick bool               // each run has a box to select it
	// Slots is the data-slots of the rows: "keep" if rows that no longer match stay in sight.
	Slots string
	// Fixed says that each row is a position, such as that of the last run, and has a constant
	// height. There is no column for the wait of each run.
	Fixed bool
	// TimeHeading is the heading of the column with the times when runs ended, and since when
	// active runs have their state.
	TimeHeading string
}

// Links reports whether runs may have links to actions.
func (l runList) Links() bool { return l.Can.Trigger || l.Can.Cancel }

// For returns the list with links to these actions.
func (l runList) For(can permission.Allowed) runList {
	l.Can = can
	return l
}

// Picked returns the list with a box in each row, or without.
func (l runList) Picked(pick bool) runList {
	l.Pick = pick
	return l
}

// Kept returns the list with rows that keep their places, also when they no longer match.
func (l runList) Kept() runList {
	l.Slots = "keep"
	return l
}

// OfEnded returns the list as one that never has active runs.
func (l runList) OfEnded() runList {
	l.TimeHeading = "Ended"
	return l
}

// OfActive returns the list as one that has active runs only.
func (l runList) OfActive() runList {
	l.TimeHeading = "Since"
	return l
}

// OfStates returns the list as one that has only runs in these states. No states are all.
func (l runList) OfStates(states []string) runList {
	final := 0
	for _, state := range states {
		if jobs.State(state).Final() {
			final++
		}
	}
	switch {
	case len(states) == 0:
		return l
	case final == len(states):
		return l.OfEnded()
	case final == 0:
		return l.OfActive()
	}
	return l
}

// AsPositions returns the list with rows that are positions and have a constant height.
func (l runList) AsPositions() runList {
	l.Fixed = true
	return l
}

// hops are waiting runs for the template.
type hops struct {
	Now     time.Time
	Waiters []*locks.Waiter
	Can     permission.Allowed // actions to which each run has links
	Wide    bool               // with bars and limits
}

func newHops(now time.Time, waiters []*locks.Waiter, can permission.Allowed) hops {
	return hops{Now: now, Waiters: waiters, Can: can}
}

func newWideHops(now time.Time, waiters []*locks.Waiter, can permission.Allowed) hops {
	return hops{now, waiters, can, true}
}

// Below returns the runs that wait for a waiting run.
func (h hops) Below(w *locks.Waiter) hops {
	h.Waiters = w.Waiters
	return h
}

// chainList is the wait chains for the template.
type chainList struct {
	Now time.Time
	*locks.WaitChains
	Can permission.Allowed // actions to which each run has links
}

func newChainList(now time.Time, c *locks.WaitChains, can permission.Allowed) chainList {
	return chainList{now, c, can}
}

func newRunList(now time.Time, runs []storage.Record) runList {
	return runList{Now: now, Runs: runs, TimeHeading: "Ended or since"}
}

func newRunListOfOne(now time.Time, runs []storage.Record) runList {
	l := newRunList(now, runs)
	l.One = true
	return l
}

// waitingRuns are runs that wait for another, the oldest first, for the template.
type waitingRuns struct {
	Now   time.Time
	Runs  []storage.Record
	Usual string // duration of the job of the oldest; "" if it is not known
}

func newWaitingRuns(now time.Time, runs []storage.Record, usual string) waitingRuns {
	return waitingRuns{now, runs, usual}
}

// rootRunAt is the root blocker of a run for the template.
type rootRunAt struct {
	Now time.Time
	Run *locks.RootRun
}

func newRootRunAt(now time.Time, run *locks.RootRun) rootRunAt { return rootRunAt{now, run} }

// firstRuns returns the first n of a list.
func firstRuns(runs []storage.Record, n int) []storage.Record { return runs[:min(len(runs), n)] }

// isRun reports whether a text, such as a holder's run, is a run's id.
func isRun(id string) bool { return uuid.Validate(id) == nil }

// Short returns the end of an id, which is its random part. Logs contain it, too.
func Short(id string) string {
	if len(id) <= 8 {
		return id
	}
	return "…" + id[len(id)-8:]
}

// obstacle is what a waiting or skipped run could not lock, and the run in its way.
type obstacle struct {
	Resource string // "": an earlier run of the job blocks it
	Queued   bool   // the run in its way waits too
	Over     bool   // the run in the list no longer waits
	Job      string // of the run in its way; "" for a program
	Run      string // in its way; "" for a program
	Replica  string // of the run or the program in its way
	Root     string // the job that causes the wait in the end, if it is another one
}

// newObstacle returns the obstacle of a run, or nil if no lock kept it from starting.
func newObstacle(run storage.Record) *obstacle {
	b := run.BlockedBy
	if b == nil || run.Reason != reasons.LockHeld && run.Reason != reasons.OlderWaiter {
		return nil
	}
	o := &obstacle{Resource: b.Resource, Queued: b.Waiting, Over: run.State.Final(),
		Job: b.Holder.Job, Run: b.Holder.Run, Replica: b.Holder.Replica}
	if root := b.Root.Holder.Job; root != o.Job {
		o.Root = root
	}
	if resource, err := locking.ParseDisplay(b.Resource); err == nil &&
		resource.Kind() == locking.KindJob {
		o.Resource = ""
	}
	return o
}
