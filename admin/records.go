package admin

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// since returns when a run entered its current state: its current attempt, or its wait.
func since(r jobs.Record) time.Time {
	switch {
	case r.State == jobs.Running && len(r.Rests) > 0 && r.Rests[len(r.Rests)-1].Until != nil:
		return *r.Rests[len(r.Rests)-1].Until
	case r.State == jobs.Running && r.StartedAt != nil:
		return *r.StartedAt
	case r.State == jobs.Waiting && !r.WaitSince.IsZero():
		return r.WaitSince
	}
	return r.CreatedAt
}

// ended returns when a run ended, or was recorded if it never started.
func ended(r jobs.Record) time.Time {
	if r.FinishedAt != nil {
		return *r.FinishedAt
	}
	return r.CreatedAt
}

// lasted returns how long a run ran, or "" if it has not ended.
func lasted(r jobs.Record) string {
	length, ended := r.Took()
	if !ended {
		return ""
	}
	return words.Took(length)
}

func olderFirst(a, b jobs.Record) int {
	return cmp.Or(since(a).Compare(since(b)), cmp.Compare(a.ID.String(), b.ID.String()))
}

func finalStates() []jobs.State {
	return slices.DeleteFunc(jobs.States(), func(s jobs.State) bool { return !s.Final() })
}

func unsuccessfulStates() []jobs.State {
	return slices.DeleteFunc(finalStates(), func(s jobs.State) bool { return s == jobs.Succeeded })
}

func plainRecords(found []jobs.Record) []jobs.Record {
	runs := make([]jobs.Record, 0, len(found))
	for _, run := range found {
		runs = append(runs, plainRecord(run))
	}
	return runs
}

// plainRecord returns a run with times in UTC and the display name of the blocking resource, so
// that all replicas show the same.
func plainRecord(r jobs.Record) jobs.Record {
	r.ScheduledAt, r.CreatedAt, r.WaitSince = r.ScheduledAt.UTC(), r.CreatedAt.UTC(),
		r.WaitSince.UTC()
	r.StartBy, r.StartedAt, r.FinishedAt = inUTC(r.StartBy), inUTC(r.StartedAt), inUTC(r.FinishedAt)
	if r.BlockedBy != nil {
		r.BlockedBy = plainBlocker(r.BlockedBy)
	}
	if r.Waited != nil {
		waited := *r.Waited
		waited.Blocker, waited.Since = *plainBlocker(&waited.Blocker), waited.Since.UTC()
		r.Waited = &waited
	}
	return r
}

// plainBlocker returns the blocker with display names of its resources.
func plainBlocker(b *jobs.Blocker) *jobs.Blocker {
	plain := *b
	plain.Resource, plain.Root.Resource = resourceName(b.Resource), resourceName(b.Root.Resource)
	return &plain
}

func inUTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	utc := t.UTC()
	return &utc
}

// resourceName returns the display name of a resource's key. It returns any other text unchanged.
func resourceName(text string) string {
	if resource, err := locking.ParseKey(text); err == nil {
		return resource.String()
	}
	return text
}

// blockedOn returns the resource that a waiting run waits for.
func blockedOn(run jobs.Record) (locking.Resource, bool) {
	if run.BlockedBy == nil {
		return locking.Resource{}, false
	}
	resource, err := locking.ParseDisplay(run.BlockedBy.Resource)
	return resource, err == nil
}
