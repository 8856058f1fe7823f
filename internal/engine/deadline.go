package engine

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// pastDeadline reports whether the deadline of a firing has passed. scheduledAt is its scheduled
// time, or the time of its trigger.
func (j *entry) pastDeadline(scheduledAt, now time.Time) bool {
	return j.Deadline > 0 && now.After(scheduledAt.Add(j.Deadline))
}

// deadlineWords describes why a firing did not start by its deadline.
func (j *entry) deadlineWords(obstacle string) string {
	return fmt.Sprintf("not started by its deadline, %s after its scheduled time: %s", j.Deadline,
		obstacle)
}

// startBy returns the cluster time by which the firing must begin; zero if there is no limit. Later
// attempts have no limit.
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

// limited reports whether the limit of the firing comes from the wait of its trigger and not from
// the deadline of its job.
func (f *firing) limited() bool {
	limit := f.pending.startBy
	return limit != nil && limit.Equal(f.startBy())
}

// expiry returns the reason of a firing that could not begin in time. A firing that is limited by
// its trigger ends with the reason of its wait.
func (f *firing) expiry(b *refusal) jobs.Reason {
	if f.limited() && b.reason != "" {
		return b.reason
	}
	return jobs.ReasonDeadline
}

// lateWords describes why a firing could not begin in time.
func (f *firing) lateWords(obstacle string) string {
	if f.limited() {
		wait := f.pending.startBy.Sub(f.firing.ScheduledAt)
		return fmt.Sprintf("not started within %s of its trigger: %s", wait, obstacle)
	}
	return f.entry.deadlineWords(obstacle)
}

// tooLate reports whether the limit of the firing has passed.
func (f *firing) tooLate() bool {
	by := f.startBy()
	return !by.IsZero() && f.clock.now().After(by)
}

// miss records that the firing could not begin in time, and its blocker.
func (f *firing) miss(b *refusal) {
	if b == nil {
		b = &refusal{detail: f.obstacle}
		if b.detail == "" {
			b.detail = "no worker was free"
		}
	}
	f.skip(b, f.expiry(b))
}

// decline gives back a claim that was granted after the deadline, because the store answered late.
func (f *firing) decline(token jobs.Token, lock *locking.Lock) {
	remove := f.active.add(token, f.run, func(error) {})
	defer remove()
	run := jobs.Run{ID: f.run, Token: token}.With(f.newAttempt())
	if f.record(run, verdict{state: jobs.Skipped, reason: jobs.ReasonDeadline,
		detail: f.lateWords("the store did not answer in time")}, false, false) {
		f.runSpans.ended(jobs.Skipped, jobs.ReasonDeadline, nil)
	}
	f.release(lock)
}
