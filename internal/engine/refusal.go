package engine

import (
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/locking"
)

// refusal is why a try to obtain a claim failed.
type refusal struct {
	reason  jobs.Reason
	blocker *jobs.Blocker
	detail  string
	granted bool // the store refused: the blocker's advisory lock may show when it ends
	queued  bool // another firing of the job waits for the same already
	// the blocker is a run of a backfill
	backfill bool

	reservedUntil time.Time // as in StartResult, by this machine's clock
}

// final returns the reason for which the firing must not wait, or "" if it may.
func (b *refusal) final(f *firing) jobs.Reason {
	switch {
	case f.late || f.manual() || b.backfill && b.ownJob(f):
		return ""
	case b.reason == reasons.Overlap && (f.entry.Overlap == jobs.OverlapSkip || b.queued):
		return reasons.Overlap
	case f.hasNoNextTime() && (b.queued || b.reason == reasons.OlderWaiter && b.ownJob(f)):
		return reasons.OlderWaiter
	}
	return ""
}

// ownJob reports whether the blocker is an earlier run of the same job.
func (b *refusal) ownJob(f *firing) bool {
	return b.blocker != nil && b.blocker.Holder.Job == f.entry.Name &&
		b.reason != reasons.GroupFull
}

// names reports whether the blocker has the resource, in its display form.
func (b *refusal) names(resource string) bool {
	return b.blocker != nil && b.blocker.Resource == resource
}

// group reports whether the blocker is the limit of the job's group.
func (b *refusal) group() bool {
	if b.blocker == nil || !strings.HasPrefix(b.blocker.Resource, string(locking.KindGroup)) {
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
