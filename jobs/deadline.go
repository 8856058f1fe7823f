package jobs

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/locking"
)

// pastDeadline reports whether a firing that was due, or triggered, then may not
// begin any more.
func (j *Job) pastDeadline(scheduledAt, now time.Time) bool {
	return j.Deadline > 0 && now.After(scheduledAt.Add(j.Deadline))
}

// deadlineWords say what was in the way of a firing until its deadline passed.
func (j *Job) deadlineWords(obstacle string) string {
	return fmt.Sprintf("not started by its deadline, %s after its scheduled time: %s", j.Deadline,
		obstacle)
}

// startBy is when the firing must have begun, by cluster time; zero where it may
// begin at any time. Later attempts have begun with the first.
func (f *firing) startBy() time.Time {
	if f.attempt > 1 || f.begun {
		return time.Time{}
	}
	var by time.Time
	if f.entry.Deadline > 0 {
		by = f.firing.ScheduledAt.Add(f.entry.Deadline)
	}
	if limit := f.pending.startBy; limit != nil && (by.IsZero() || limit.Before(by)) {
		return *limit
	}
	return by
}

// limited reports whether it is the wait of its trigger, and not the job's deadline,
// that ends a firing which has not begun.
func (f *firing) limited() bool {
	limit := f.pending.startBy
	return limit != nil && limit.Equal(f.startBy())
}

// expiry is the reason of a firing that could not begin in time. One whose trigger said
// how long it may wait ends with the reason for which it waited.
func (f *firing) expiry(b *blockage) Reason {
	if f.limited() && b.reason != "" {
		return b.reason
	}
	return ReasonDeadline
}

// lateWords say what was in the way of a firing until it was too late to begin.
func (f *firing) lateWords(obstacle string) string {
	if f.limited() {
		wait := f.pending.startBy.Sub(f.firing.ScheduledAt)
		return fmt.Sprintf("not started within %s of its trigger: %s", wait, obstacle)
	}
	return f.entry.deadlineWords(obstacle)
}

// tooLate reports whether the firing's deadline has passed.
func (f *firing) tooLate() bool {
	by := f.startBy()
	return !by.IsZero() && f.clock.now().After(by)
}

// miss records that the firing could not begin by its deadline, and what was in
// the way.
func (f *firing) miss(b *blockage) {
	if b == nil {
		b = &blockage{detail: f.obstacle}
		if b.detail == "" {
			b.detail = "there was no worker for it"
		}
	}
	f.skip(b, f.expiry(b))
}

// decline gives back a claim that was granted after the deadline: the store did
// not answer in time.
func (f *firing) decline(token Token, lock *locking.Lock) {
	remove := f.active.add(token, f.run, func(error) {})
	defer remove()
	run := Run{ID: f.run, Token: token}.With(f.newAttempt())
	if f.record(run, verdict{state: Skipped, reason: ReasonDeadline,
		detail: f.lateWords("the store did not answer in time")}, false, false) {
		f.runSpans.ended(Skipped, ReasonDeadline, nil)
	}
	f.release(lock)
}
