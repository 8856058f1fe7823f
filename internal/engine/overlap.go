package engine

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/batch"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// overlapDelays are the delays after which a firing tries to lock again while another run of its
// job has the advisory locks, but no claim: that run is about to start, or has just ended.
var overlapDelays = [...]time.Duration{20 * time.Millisecond, 40 * time.Millisecond,
	80 * time.Millisecond, 160 * time.Millisecond, 320 * time.Millisecond}

// overlaps decides on firings that have met the advisory locks of another run of their job and must
// not wait for its end. Such a firing is skipped if the run has its claim. The replica asks the
// store for the claims of many runs together. A start of the firing would cost much more, and would
// wait in the store for the start of that run: in an overloaded cluster, replicas would mostly wait
// for each other.
type overlaps struct {
	claims *batch.Batch[uuid.UUID, storage.RunClaim]
}

func newOverlaps(claims func(context.Context, []uuid.UUID) ([]storage.RunClaim, error),
	pace time.Duration) overlaps {
	return overlaps{batch.New(batch.Options[uuid.UUID, storage.RunClaim]{Send: claims,
		Most: storage.MaxBatch, Timeout: batchTimeout, Whole: meetsAll, Pace: pace})}
}

// decide returns the refusal of the firing by the run that it has met. tries is the number of its
// earlier tries that have met such a run, and now is by cluster time. If there is no refusal,
// decide returns the delay until the next try, or 0 if the firing must ask the store to start it:
//
//   - it may wait for the end of the run, or it must start before the next try
//   - its job is paused, or the store does not answer
//   - the advisory locks seem to be left over
func (o overlaps) decide(f *firing, tries int, now time.Time) (*refusal, time.Duration) {
	refused := f.overlap()
	if refused == nil || refused.final(f) == "" {
		return nil, 0
	}
	run, err := uuid.Parse(f.met.Run)
	if err != nil || run == f.run { // its previous attempt has left its locks
		return nil, 0
	}
	start := f.spans.now()
	claim, err := o.claims.Ask(f.session.Context(), run)
	refused.backfill = claim.Backfill
	switch {
	case err != nil, claim.Paused, claim.Exists && refused.final(f) == "":
		return nil, 0
	case claim.Exists:
		f.spans.asked(start, 0, refused)
		return refused, 0
	case tries >= len(overlapDelays):
		return nil, 0
	}
	delay := overlapDelays[tries]
	if by := f.startBy(); !by.IsZero() && !now.Add(delay).Before(by) {
		return nil, 0
	}
	return nil, delay
}

// overlap returns the refusal of the firing by the run of its job that it has met, or nil if it has
// met none.
func (f *firing) overlap() *refusal {
	own, err := locking.Job(f.entry.Name)
	if f.met.Job != f.entry.Name || err != nil {
		return nil
	}
	return &refusal{reason: reasons.Overlap, granted: true,
		blocker: &jobs.Blocker{Resource: own.String(), Holder: f.met}}
}
