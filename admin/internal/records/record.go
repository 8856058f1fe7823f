package records

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// Since returns when a run entered its current state: its current attempt, or its wait.
func Since(r storage.Record) time.Time {
	waits := r.RetryWaits
	switch {
	case r.State == jobs.Running && len(waits) > 0 && waits[len(waits)-1].Until != nil:
		return *waits[len(waits)-1].Until
	case r.State == jobs.Running && r.StartedAt != nil:
		return *r.StartedAt
	case r.State == jobs.Waiting && !r.WaitSince.IsZero():
		return r.WaitSince
	}
	return r.CreatedAt
}

// Ended returns when a run ended, or was recorded if it never started.
func Ended(r storage.Record) time.Time {
	if r.FinishedAt != nil {
		return *r.FinishedAt
	}
	return r.CreatedAt
}

// Lasted returns how long a run ran, or "" if it has not ended.
func Lasted(r storage.Record) string {
	length, ended := r.Took()
	if !ended {
		return ""
	}
	return words.Took(length)
}

// StartDelay returns how long after its scheduled time a run started, or "" for a run that did not
// start or that somebody triggered.
func StartDelay(r storage.Record) string {
	if r.Key != "" || r.StartedAt == nil {
		return ""
	}
	return words.Took(r.StartedAt.Sub(r.ScheduledAt))
}

// LockWait returns how long the current or last attempt of a run waited for its locks, or how long
// a skipped run did. It returns "" if it did not wait, or has not started yet.
func LockWait(r storage.Record) string {
	if r.Waited == nil {
		return ""
	}
	var until *time.Time
	switch n := len(r.RetryWaits); {
	case r.State == jobs.Skipped:
		until = new(Ended(r))
	case n > 0:
		until = r.RetryWaits[n-1].Until
	default:
		until = r.StartedAt
	}
	if until == nil {
		return ""
	}
	return words.Took(until.Sub(r.Waited.Since))
}

// AttemptLasted returns how long an attempt ran, or "" if it has not started or not ended.
func AttemptLasted(a storage.RunAttempt) string {
	length, ended := a.Took()
	if !ended {
		return ""
	}
	return words.Took(length)
}

// WaitedFor says how long an attempt waited for its last blocker: "waited 40 s for public/orders,
// held by prune".
func WaitedFor(a storage.RunAttempt) string {
	text := "waited"
	if a.StartedAt != nil {
		text += " " + words.Took(a.StartedAt.Sub(a.Waited.Since))
	}
	if a.Waited.Resource != "" {
		text += " for " + words.Cut(a.Waited.Resource, 100)
	}
	return text + words.Behind(a.Waited.Blocker)
}

// OlderFirst orders runs by the time since when they are in their state.
func OlderFirst(a, b storage.Record) int {
	return cmp.Or(Since(a).Compare(Since(b)), cmp.Compare(a.ID.String(), b.ID.String()))
}

// FinalStates returns the states of runs that have ended.
func FinalStates() []jobs.State {
	return slices.DeleteFunc(jobs.States(), func(s jobs.State) bool { return !s.Final() })
}

// UnsuccessfulStates returns the states of runs that ended without success.
func UnsuccessfulStates() []jobs.State {
	return slices.DeleteFunc(FinalStates(), func(s jobs.State) bool { return s == jobs.Succeeded })
}

// PlainAll applies Plain to a list, and never returns nil. Lists have no params: only who may view
// the params of a job gets them, with the single run.
func PlainAll(found []storage.Record) []storage.Record {
	runs := make([]storage.Record, 0, len(found))
	for _, run := range found {
		run.Params = nil
		runs = append(runs, Plain(run))
	}
	return runs
}

// Plain returns a run with times in UTC and the display name of the blocking resource, so
// that all replicas show the same.
func Plain(r storage.Record) storage.Record {
	r.ScheduledAt, r.CreatedAt, r.WaitSince = r.ScheduledAt.UTC(), r.CreatedAt.UTC(),
		r.WaitSince.UTC()
	r.StartBy, r.StartedAt, r.FinishedAt = InUTC(r.StartBy), InUTC(r.StartedAt), InUTC(r.FinishedAt)
	if r.BlockedBy != nil {
		r.BlockedBy = PlainBlocker(r.BlockedBy)
	}
	r.Waited = plainWait(r.Waited)
	return r
}

// PlainAttempt returns an attempt with times in UTC and display names of resources.
func PlainAttempt(a storage.RunAttempt) storage.RunAttempt {
	a.StartedAt, a.FinishedAt = InUTC(a.StartedAt), InUTC(a.FinishedAt)
	a.Waited = plainWait(a.Waited)
	return a
}

func plainWait(w *storage.Wait) *storage.Wait {
	if w == nil {
		return nil
	}
	return &storage.Wait{Blocker: *PlainBlocker(&w.Blocker), Since: w.Since.UTC()}
}

// PlainBlocker returns the blocker with display names of its resources.
func PlainBlocker(b *jobs.Blocker) *jobs.Blocker {
	plain := *b
	plain.Resource, plain.Root.Resource = ResourceName(b.Resource), ResourceName(b.Root.Resource)
	return &plain
}

// InUTC returns a time in UTC, or nil.
func InUTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	utc := t.UTC()
	return &utc
}

// ResourceName returns the display name of a resource's key. It returns any other text unchanged.
func ResourceName(text string) string {
	if resource, err := locking.ParseKey(text); err == nil {
		return resource.String()
	}
	return text
}

// BlockedOn returns the resource that a waiting run waits for.
func BlockedOn(run storage.Record) (locking.Resource, bool) {
	if run.BlockedBy == nil {
		return locking.Resource{}, false
	}
	resource, err := locking.ParseDisplay(run.BlockedBy.Resource)
	return resource, err == nil
}
