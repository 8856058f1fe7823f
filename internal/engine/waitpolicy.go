package engine

import (
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/retry"
)

// waitPolicy is the state of a firing's wait. For a lock it follows the job's wait policy. For its
// turn, behind its own job or in its group, it has no limit.
type waitPolicy struct {
	firing   *firing
	began    time.Time
	tries    retry.Series // for locks
	turn     bool         // the last refusal made it wait for its turn
	extended bool         // its tries are over, and the job's misfire policy extends the wait
	// by cluster time: when the job's next scheduled time takes its place; zero: never
	until time.Time
	// tries and until are set. They are set at the first refusal, because most firings are not
	// refused.
	refused bool
	planned time.Time // the next try; earlier questions do not count as tries
	rested  time.Time // the end of its rest; see rest
}

// newWaitPolicy returns the state of a new wait: each attempt has its own tries and limit.
func newWaitPolicy(f *firing, now time.Time) *waitPolicy {
	return &waitPolicy{firing: f, began: now}
}

// setLimits sets tries and until, unless they are set.
func (w *waitPolicy) setLimits() {
	if !w.refused {
		w.tries, w.until = *w.firing.entry.Wait.Start(w.began), w.firing.deadline()
		w.refused = true
	}
}

// manual reports whether the firing was triggered by hand or added by a backfill. It waits until
// its blocker is gone or its job's deadline has passed. The overlap policy does not apply to it.
func (p pending) manual() bool { return p.Key != "" }

// deadline returns when the start of the job's next scheduled time ends the wait of the firing;
// zero for late and manual firings.
func (p pending) deadline() time.Time {
	if p.late || p.manual() {
		return time.Time{}
	}
	return p.entry.nextStart(p.since)
}

// hasNoNextTime reports whether no next scheduled time ends the wait of the firing. Firings of one
// such job must not queue: they would pile up while a lock is held.
func (p pending) hasNoNextTime() bool {
	return len(p.entry.Schedule.After()) > 0 && !p.manual()
}

// asksWithin is how many times a firing asks the store at least while its position is reserved. The
// blocker may end at any time, and others may pass when the reservation has ended.
const asksWithin = 4

// restMost is how long a firing rests at most. It is longer only if its policy has no try before.
const restMost = noteAfter

// next returns the delay until the firing asks again, or the reason for which it stops waiting.
// cluster is the cluster time.
func (w *waitPolicy) next(b *refusal, cluster time.Time) (time.Duration, jobs.Reason) {
	now := time.Now()
	delay := w.planned.Sub(now)
	if delay <= 0 || b.final(w.firing) != "" {
		var end jobs.Reason
		if delay, end = w.nextTry(b, now, cluster); end != "" {
			return 0, end
		}
		w.planned = now.Add(delay)
	}
	if now.Before(b.reservedUntil) {
		delay = min(delay, max(w.firing.entry.ReserveTime()/asksWithin, 10*time.Millisecond))
	}
	return delay, ""
}

// rest returns the delay until a try that may find something new although the refusal stays the
// same: the wait ends or changes then, or it has lasted so long that the firing is recorded as
// waiting. Otherwise the rest lasts for restMost at most. catchUp counts the tries until then. The
// caller must have called next.
func (w *waitPolicy) rest(b *refusal, cluster time.Time) time.Duration {
	now, ahead, most := time.Now(), *w, restMost
	if left := noteAfter - cluster.Sub(w.firing.since); left > 0 {
		most = left
	}
	for w.rested = w.planned; ; {
		delay, end := ahead.nextTry(b, w.rested, cluster.Add(w.rested.Sub(now)))
		if next := w.rested.Add(delay); end != "" || ahead.turn != w.turn ||
			ahead.extended != w.extended || delay < time.Millisecond || next.Sub(now) > most {
			return w.rested.Sub(now)
		}
		w.rested = w.rested.Add(delay)
	}
}

// catchUp counts the tries that the policy planned for the rest until now. b is the refusal for
// which the firing rested.
func (w *waitPolicy) catchUp(b *refusal, cluster time.Time) {
	now := time.Now()
	for w.planned.Before(w.rested) && !w.planned.After(now) {
		delay, end := w.nextTry(b, w.planned, cluster.Add(w.planned.Sub(now)))
		if end != "" {
			return // the clock was set meanwhile
		}
		w.planned = w.planned.Add(delay)
	}
}

// nextTry returns the delay until the next try, or the reason for which the firing stops waiting.
// at is the time of the last try, by this machine's clock, and now is the same by cluster time.
func (w *waitPolicy) nextTry(b *refusal, at, now time.Time) (delay time.Duration, end jobs.Reason) {
	f := w.firing
	w.setLimits()
	delay, more := w.tries.Next(at)
	switch {
	case b.final(f) != "":
		return 0, b.final(f)
	case f.manual():
		if !more {
			delay = noteAfter
		}
	case w.waitsForItsTurn(b):
		w.turn = true
		if !more {
			delay = noteAfter
		}
	case w.turn: // its turn came, and now a lock blocks it
		*w = *newWaitPolicy(f, at)
		w.setLimits()
		if !w.until.IsZero() {
			w.until = f.entry.nextStart(now)
		}
		delay, more = w.tries.Next(at)
		if !more && !w.extends(b, now) {
			return 0, b.reason
		}
	case !more && !w.extends(b, now):
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
	behindOwnRun := b.ownJob(f) && w.waitsForItsTurn(b) && b.reason != reasons.OlderWaiter
	if until := w.until; until.IsZero() || now.Add(delay).Before(until) || behindOwnRun {
		return delay, ""
	}
	if !w.extended && w.extends(b, now) && (w.until.IsZero() || now.Add(delay).Before(w.until)) {
		return delay, "" // the policy also extends a wait that has tries left
	}
	if w.extended {
		return 0, reasons.Superseded
	}
	return 0, b.reason
}

// extends reports whether the misfire policy extends the wait of a firing that has no tries
// left: run_once until the job's next scheduled time takes its place, run_all until as many
// scheduled times have come as may run late.
func (w *waitPolicy) extends(b *refusal, now time.Time) bool {
	f := w.firing
	policy := f.entry.MisfirePolicy(reasons.LockHeld)
	if policy == jobs.MisfireSkip || b.reason != reasons.LockHeld &&
		b.reason != reasons.OlderWaiter {
		return false
	}
	if w.extended {
		return true
	}
	w.extended = true
	w.until = f.entry.extendedUntil(f.ScheduledAt, now)
	return true
}

// waitsForItsTurn reports whether the blocker is an earlier run of a job that queues, a backfill's
// run of the job, or the limit of the job's group.
func (w *waitPolicy) waitsForItsTurn(b *refusal) bool {
	f := w.firing
	return b.ownJob(f) && (f.late || b.backfill || f.entry.Overlap == jobs.OverlapQueue) ||
		b.group()
}
