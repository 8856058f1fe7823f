package engine

import (
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

// waitPolicy is the state of a firing's wait. For a lock it follows the job's wait policy. For its
// turn, behind its own job or in its group, it has no limit.
type waitPolicy struct {
	tries    *retry.Series // for locks
	turn     bool          // the last refusal made it wait for its turn
	extended bool          // its tries are over, and the job's misfire policy extends the wait
	// by cluster time: when the job's next scheduled time takes its place; zero: never
	until   time.Time
	planned time.Time // the next try; earlier questions do not count as tries
}

// wait starts a new wait: each attempt has its own tries and limit.
func (f *firing) wait() {
	f.waitPolicy = waitPolicy{tries: f.entry.Wait.Start(time.Now()), until: f.deadline()}
}

// manual reports whether the firing was triggered by hand. It waits until its blocker is gone or
// its job's deadline has passed. The overlap policy does not apply to it.
func (p pending) manual() bool { return p.firing.Key != "" }

// deadline returns when the start of the job's next scheduled time ends the wait of the firing;
// zero for late and manual firings.
func (p pending) deadline() time.Time {
	if p.late || p.manual() {
		return time.Time{}
	}
	return p.entry.nextStart(p.since)
}

// asksWithin is how many times a firing asks the store at least while its position is reserved. The
// blocker may end at any time, and others may pass when the reservation has ended.
const asksWithin = 4

// refused returns the delay until the firing asks again, or the reason for which it stops waiting.
func (f *firing) refused(b *refusal) (time.Duration, jobs.Reason) {
	now := time.Now()
	delay := f.waitPolicy.planned.Sub(now)
	if delay <= 0 || b.final(f) != "" {
		var end jobs.Reason
		if delay, end = f.nextTry(b); end != "" {
			return 0, end
		}
		f.waitPolicy.planned = now.Add(delay)
	}
	if now.Before(b.reservedUntil) {
		delay = min(delay, max(f.entry.ReserveTime()/asksWithin, 10*time.Millisecond))
	}
	return delay, ""
}

// nextTry returns the delay until the next try, or the reason for which the firing stops waiting.
func (f *firing) nextTry(b *refusal) (delay time.Duration, end jobs.Reason) {
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
	case f.waitPolicy.turn: // its turn came, and now a lock blocks it
		f.wait()
		if !f.waitPolicy.until.IsZero() {
			f.waitPolicy.until = f.entry.nextStart(now)
		}
		delay, more = f.waitPolicy.tries.Next(time.Now())
		if !more && !f.extendsWait(b, now) {
			return 0, b.reason
		}
	case !more && !f.extendsWait(b, now):
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
	// Behind a running run of its own job it waits for its turn without a limit: the queue has one
	// position. Behind a waiting one there is no position left.
	behindOwnRun := b.ownJob(f) && f.waitsForItsTurn(b) && b.reason != jobs.ReasonOlderWaiter
	if until := f.waitPolicy.until; until.IsZero() || now.Add(delay).Before(until) || behindOwnRun {
		return delay, ""
	}
	if !f.waitPolicy.extended && f.extendsWait(b, now) &&
		now.Add(delay).Before(f.waitPolicy.until) {
		return delay, "" // with tries left, the wait is extended as without
	}
	if f.waitPolicy.extended {
		return 0, jobs.ReasonSuperseded
	}
	return 0, b.reason
}

// extendsWait reports whether the misfire policy extends the wait of a firing that has no tries
// left: run_once until the job's next scheduled time takes its place, run_all until as many
// scheduled times have come as may run late.
func (f *firing) extendsWait(b *refusal, now time.Time) bool {
	policy := f.entry.MisfirePolicy(jobs.ReasonLockHeld)
	if policy == jobs.MisfireSkip || b.reason != jobs.ReasonLockHeld &&
		b.reason != jobs.ReasonOlderWaiter {
		return false
	}
	if f.waitPolicy.extended {
		return true
	}
	f.waitPolicy.extended = true
	next := f.entry.nextStart(now)
	if policy == jobs.MisfireRunAll {
		for range f.entry.LateLimit() - 1 {
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

// waitsForItsTurn reports whether the blocker is an earlier run of a job that queues, or the limit
// of the job's group.
func (f *firing) waitsForItsTurn(b *refusal) bool {
	return b.ownJob(f) && (f.late || f.entry.Overlap == jobs.OverlapQueue) || b.group()
}

// refusal is why a try to obtain a claim failed.
type refusal struct {
	reason  jobs.Reason
	blocker *jobs.Blocker
	detail  string
	granted bool // the store refused: the blocker's advisory lock may show when it ends
	queued  bool // another firing of the job waits for the same already

	reservedUntil time.Time // as in StartResult, by this machine's clock
}

// final returns the reason for which the firing must not wait, or "" if it may.
func (b *refusal) final(f *firing) jobs.Reason {
	switch {
	case f.late || f.manual():
		return ""
	case b.reason == jobs.ReasonOverlap && (f.entry.Overlap == jobs.OverlapSkip || b.queued):
		return jobs.ReasonOverlap
	case f.hasNoNextTime() && (b.queued || b.reason == jobs.ReasonOlderWaiter && b.ownJob(f)):
		return jobs.ReasonOlderWaiter
	}
	return ""
}

// hasNoNextTime reports whether no next scheduled time ends the wait of the firing. Firings of one
// such job must not queue: they would pile up while a lock is held.
func (f *firing) hasNoNextTime() bool {
	return len(f.entry.Schedule.After()) > 0 && !f.manual()
}

// ownJob reports whether the blocker is an earlier run of the same job.
func (b *refusal) ownJob(f *firing) bool {
	return b.blocker != nil && b.blocker.Holder.Job == f.entry.Name &&
		b.reason != jobs.ReasonGroupFull
}

// group reports whether the blocker is the limit of the job's group.
func (b *refusal) group() bool {
	if b.blocker == nil {
		return false
	}
	resource, err := locking.ParseDisplay(b.blocker.Resource)
	return err == nil && resource.Kind() == locking.KindGroup
}

// words describes the blocker, and whether another firing is in the queue.
func (b *refusal) words() string {
	if b.blocker == nil {
		return b.detail
	}
	words := b.blocker.Words(b.reason.Relation())
	if b.queued {
		words += ", and another firing waits for it already"
	}
	return words
}
