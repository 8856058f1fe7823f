package jobs

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/locking"
)

// pastDeadline reports whether a firing that was due, or triggered, then may not
// begin any more.
func (j *Job) pastDeadline(due, now time.Time) bool {
	return j.Deadline > 0 && now.After(due.Add(j.Deadline))
}

// deadlineWords say what was in the way of a firing until its deadline passed.
func (j *Job) deadlineWords(obstacle string) string {
	return fmt.Sprintf("not started by its deadline, %s after its due: %s", j.Deadline, obstacle)
}

// startBy is when the firing must have begun, by cluster time; zero where it may
// begin at any time. Later attempts have begun with the first.
func (f *firing) startBy() time.Time {
	if f.entry.Deadline == 0 || f.attempt > 1 || f.begun {
		return time.Time{}
	}
	return f.firing.Due.Add(f.entry.Deadline)
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
	f.skip(b, ReasonDeadline)
}

// decline gives back a claim that was granted after the deadline: the store did
// not answer in time.
func (f *firing) decline(token Token, lock *locking.Lock) {
	remove := f.active.add(token, f.run, func(error) {})
	defer remove()
	run := &Run{ID: f.run, Token: token, output: NewTail(maxOutput)}
	if f.record(run, verdict{state: Skipped, reason: ReasonDeadline, detail: f.entry.deadlineWords("the store did not answer in time")}, false, false) {
		f.trail.ended(Skipped, ReasonDeadline, nil)
	}
	f.release(lock)
}
