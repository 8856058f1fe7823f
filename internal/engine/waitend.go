package engine

import (
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// longestWait bounds the wait of a policy that has no limit of its own.
const longestWait = 10 * 365 * 24 * time.Hour

// WaitEnd is [Scheduler.WaitEnd] for a program without a replica. The job is that of the run. It
// returns false if the run does not wait, or has no blocker.
func WaitEnd(job jobs.Job, r storage.Record) (storage.WaitEnd, bool) {
	return (&entry{Job: job}).waitEnd(r)
}

// waitEnd returns when a waiting run stops waiting for its blocker. It returns false if this
// replica does not fire the job, or if the run has no blocker.
func (t *cronTable) waitEnd(r storage.Record) (storage.WaitEnd, bool) {
	e := t.get(r.Job)
	if e == nil || e.activeVersion.otherIsActive() {
		return storage.WaitEnd{}, false
	}
	return e.waitEnd(r)
}

// waitEnd follows the rules of waitPolicy with the record of the run only.
func (e *entry) waitEnd(r storage.Record) (storage.WaitEnd, bool) {
	if r.State != jobs.Waiting || r.BlockedBy == nil {
		return storage.WaitEnd{}, false
	}
	end := e.endOfWait(r)
	if by := e.mustStartBy(r); !by.IsZero() && (end.At.IsZero() || by.Before(end.At)) {
		end = storage.WaitEnd{At: by}
	}
	return end, true
}

// mustStartBy is startBy for a run of which only the record is known.
func (e *entry) mustStartBy(r storage.Record) time.Time {
	if r.StartedAt != nil {
		return time.Time{}
	}
	f := firing{pending: pending{Firing: storage.Firing{ScheduledAt: r.ScheduledAt}, entry: e,
		backfill: r.Backfill, triggerLimit: r.StartBy}}
	return f.startBy()
}

// endOfWait returns when a run stops waiting by the policies of its job, without its deadline.
func (e *entry) endOfWait(r storage.Record) storage.WaitEnd {
	since := r.WaitSince
	if since.IsZero() {
		since = r.CreatedAt
	}
	next := e.nextStart(since)
	late := e.isLate(r, since)
	if late {
		next = time.Time{}
	}
	ownRun := r.BlockedBy.Holder.Job == e.Name && r.Reason != reasons.GroupFull
	itsTurn := ownRun && (late || e.Overlap == jobs.OverlapQueue || r.Reason == reasons.Overlap) ||
		r.Reason == reasons.GroupFull
	switch {
	case r.Key != "", ownRun && itsTurn && r.Reason != reasons.OlderWaiter:
		return storage.WaitEnd{}
	case itsTurn:
		return storage.WaitEnd{At: next, Next: !next.IsZero()}
	}
	tries := since.Add(e.Wait.Longest(longestWait))
	switch end := (storage.WaitEnd{At: tries, Estimated: true}); {
	case e.MisfirePolicy(reasons.LockHeld) != jobs.MisfireSkip:
		if !next.IsZero() && next.Before(tries) {
			tries = next
		}
		end.At = e.extendedUntil(r.ScheduledAt, tries)
		end.Next = !end.At.IsZero() && end.At.Equal(e.nextStart(tries))
		return end
	case !next.IsZero() && !next.After(tries):
		return storage.WaitEnd{At: next, Next: true}
	default:
		return end
	}
}

// isLate reports whether the wait of a run began after the job's next scheduled time. No scheduled
// time ends the wait of such a run.
func (e *entry) isLate(r storage.Record, since time.Time) bool {
	next := e.nextStart(r.ScheduledAt)
	return !next.IsZero() && !next.After(since)
}

// extendedUntil returns until when the misfire policy extends the wait of a firing that has no
// tries left at now; zero: without a limit.
func (e *entry) extendedUntil(scheduledAt, now time.Time) time.Time {
	next := e.nextStart(now)
	if e.MisfirePolicy(reasons.LockHeld) == jobs.MisfireRunAll {
		for range e.LateLimit() - 1 {
			if next.IsZero() {
				break
			}
			next = e.nextStart(next)
		}
	}
	if age := e.MisfireBy.MaxAge; age > 0 &&
		(next.IsZero() || scheduledAt.Add(age).Before(next)) {
		next = scheduledAt.Add(age)
	}
	return next
}
