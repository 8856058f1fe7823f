package jobs

import (
	"time"

	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

// waitPolicy is how long a firing waits for what is in its way, by what that is:
// for a lock by the job's wait policy; for its turn, behind its own job or in
// its group, for however long that takes.
type waitPolicy struct {
	tries   *retry.Series // for locks
	turn    bool          // it waited for its turn when it was last refused
	onwards bool          // its tries are over, and it waits on by the job's misfire policy
	// by cluster time: when it gives way to the job's next scheduled time; zero: never
	until   time.Time
	planned time.Time // the next try; what is asked before costs none
}

// wait begins to wait anew: an attempt has its tries, and its time.
func (f *firing) wait() {
	f.waitPolicy = waitPolicy{tries: f.entry.Wait.Start(time.Now()), until: f.deadline()}
}

// manual reports whether an operator or a program triggered the firing. It waits for
// whatever is in its way until that is gone, or its job's deadline has passed: what
// a schedule would do about an overlap is for scheduled firings.
func (p pending) manual() bool { return p.firing.Key != "" }

// deadline is when a firing that waits must give way to the job's next scheduled time, as
// that starts; one that is late or manual need not.
func (p pending) deadline() time.Time {
	if p.late || p.manual() {
		return time.Time{}
	}
	return p.entry.nextStart(p.since)
}

// asksWithin is how often a firing asks at least while its place is reserved, as a
// part of the reservation: what it waits for may be given back, and once the
// reservation is over others may pass.
const asksWithin = 4

// refused says how long to wait for what is in the way until it asks again, or
// with a reason that the firing waits no more.
func (f *firing) refused(b *blockage) (time.Duration, Reason) {
	now := time.Now()
	delay := f.waitPolicy.planned.Sub(now)
	if delay <= 0 || b.final(f) != "" {
		var end Reason
		if delay, end = f.nextTry(b); end != "" {
			return 0, end
		}
		f.waitPolicy.planned = now.Add(delay)
	}
	if now.Before(b.reservedUntil) {
		delay = min(delay, max(f.entry.reserve()/asksWithin, 10*time.Millisecond))
	}
	return delay, ""
}

// nextTry says how long to wait for what is in the way until the next try, or
// with a reason that the firing waits no more.
func (f *firing) nextTry(b *blockage) (delay time.Duration, end Reason) {
	delay, more := f.waitPolicy.tries.Next(time.Now())
	now := f.clock.now()
	switch {
	case b.final(f) != "":
		return 0, b.final(f)
	case f.manual():
		if !more {
			delay = noteAfter
		}
	case f.waitsForItsTurn(b):
		f.waitPolicy.turn = true
		if !more {
			delay = noteAfter
		}
	case f.waitPolicy.turn: // it was its turn, and now there is a lock in the way
		f.wait()
		if !f.waitPolicy.until.IsZero() {
			f.waitPolicy.until = f.entry.nextStart(now)
		}
		delay, more = f.waitPolicy.tries.Next(time.Now())
		if !more && !f.goesOnwards(b, now) {
			return 0, b.reason
		}
	case !more && !f.goesOnwards(b, now):
		return 0, b.reason
	case !more:
		delay = noteAfter
	}
	if by := f.startBy(); !by.IsZero() && now.Add(delay).After(by) {
		if delay = by.Sub(now); delay <= 0 {
			return 0, f.expiry(b)
		}
	}
	if f.manual() {
		return delay, ""
	}
	// Behind a run of its own job that goes on it waits for its turn however long
	// that takes: the queue has one place. Behind one that waits it has none.
	behindOwnRun := b.ownJob(f) && f.waitsForItsTurn(b) && b.reason != ReasonOlderWaiter
	if until := f.waitPolicy.until; until.IsZero() || now.Add(delay).Before(until) || behindOwnRun {
		return delay, ""
	}
	if !f.waitPolicy.onwards && f.goesOnwards(b, now) && now.Add(delay).Before(f.waitPolicy.until) {
		return delay, "" // with tries left, it waits on as one without
	}
	if f.waitPolicy.onwards {
		return 0, ReasonSuperseded
	}
	return 0, b.reason
}

// goesOnwards reports whether a firing whose tries for a lock are over waits on:
// by run_once until the job's next scheduled time takes its place, by run_all until as
// many have come as may be run late.
func (f *firing) goesOnwards(b *blockage, now time.Time) bool {
	policy := f.entry.misfire(ReasonLockHeld)
	if policy == MisfireSkip || b.reason != ReasonLockHeld && b.reason != ReasonOlderWaiter {
		return false
	}
	if f.waitPolicy.onwards {
		return true
	}
	f.waitPolicy.onwards = true
	next := f.entry.nextStart(now)
	if policy == MisfireRunAll {
		for range f.entry.lateLimit() - 1 {
			if next.IsZero() {
				break
			}
			next = f.entry.nextStart(next)
		}
	}
	if age := f.entry.MisfireBy.MaxAge; age > 0 &&
		(next.IsZero() || f.firing.ScheduledAt.Add(age).Before(next)) {
		next = f.firing.ScheduledAt.Add(age)
	}
	f.waitPolicy.until = next
	return true
}

// waitsForItsTurn reports whether what is in the way is an earlier run of a job
// that queues, or the limit of the job's group.
func (f *firing) waitsForItsTurn(b *blockage) bool {
	return b.ownJob(f) && (f.late || f.entry.Overlap == OverlapQueue) || b.group()
}

// blockage is why a try to obtain failed.
type blockage struct {
	reason  Reason
	blocker *Blocker
	detail  string
	granted bool // the store refused: the blocker's stage-1 key may tell when it is gone
	queued  bool // another firing of the job waits for the same already

	reservedUntil time.Time // as in StartResult, by this machine's clock
}

// final returns why the firing must not wait, or "" where it may.
func (b *blockage) final(f *firing) Reason {
	switch {
	case f.late || f.manual():
		return ""
	case b.reason == ReasonOverlap && (f.entry.Overlap == OverlapSkip || b.queued):
		return ReasonOverlap
	case f.neverGivesWay() && (b.queued || b.reason == ReasonOlderWaiter && b.ownJob(f)):
		return ReasonOlderWaiter
	}
	return ""
}

// neverGivesWay reports whether there is no next scheduled time at which the firing
// would stop waiting. Such firings of one job must not wait one behind another: they
// would pile up for as long as a lock is held.
func (f *firing) neverGivesWay() bool {
	return len(f.entry.Schedule.After()) > 0 && !f.manual()
}

// ownJob reports whether an earlier run of the job itself is in the way.
func (b *blockage) ownJob(f *firing) bool {
	return b.blocker != nil && b.blocker.Holder.Job == f.entry.Name && b.reason != ReasonGroupFull
}

// group reports whether the limit of the job's group is in the way.
func (b *blockage) group() bool {
	if b.blocker == nil {
		return false
	}
	resource, err := locking.ParseDisplay(b.blocker.Resource)
	return err == nil && resource.Kind() == locking.KindGroup
}

// words say what was in the way, and that another firing was in the queue.
func (b *blockage) words() string {
	if b.blocker == nil {
		return b.detail
	}
	words := b.blocker.Words(b.reason.relation())
	if b.queued {
		words += ", and another firing waits for it already"
	}
	return words
}
