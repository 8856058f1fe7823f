package engine

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
)

// pastDeadline reports whether the deadline of a firing has passed. scheduledAt is its scheduled
// time, or the time of its trigger.
func (j *entry) pastDeadline(scheduledAt, now time.Time) bool {
	return j.Deadline > 0 && now.After(scheduledAt.Add(j.Deadline))
}

// deadlineWords describes why a firing did not start by its deadline.
func (j *entry) deadlineWords(blocker string) string {
	return fmt.Sprintf("not started by its deadline, %s after its scheduled time: %s", j.Deadline,
		blocker)
}

// startBy returns the cluster time by which the firing must begin; zero if there is no limit. Later
// attempts and runs of backfills have no limit.
func (f *firing) startBy() time.Time {
	if f.attempt > 1 || f.begun {
		return time.Time{}
	}
	var by time.Time
	if f.entry.Deadline > 0 && !f.runOfBackfill() {
		by = f.ScheduledAt.Add(f.entry.Deadline)
	}
	if limit := f.triggerLimit; limit != nil && (by.IsZero() || limit.Before(by)) {
		return *limit
	}
	return by
}

// limited reports whether the limit of the firing comes from the wait of its trigger and not from
// the deadline of its job.
func (f *firing) limited() bool {
	limit := f.triggerLimit
	return limit != nil && limit.Equal(f.startBy())
}

// expiry returns the reason of a firing that could not begin in time. A firing that is limited by
// its trigger ends with the reason of its wait.
func (f *firing) expiry(b *refusal) jobs.Reason {
	if f.limited() && b.reason != "" {
		return b.reason
	}
	return reasons.Deadline
}

// lateWords describes why a firing could not begin in time.
func (f *firing) lateWords(blocker string) string {
	if f.limited() {
		wait := f.triggerLimit.Sub(f.ScheduledAt)
		return fmt.Sprintf("not started within %s of its trigger: %s", wait, blocker)
	}
	return f.entry.deadlineWords(blocker)
}

// tooLate reports whether the limit of the firing has passed at now, by cluster time.
func (f *firing) tooLate(now time.Time) bool {
	by := f.startBy()
	return !by.IsZero() && now.After(by)
}
