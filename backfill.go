package holdfast

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Backfill requests runs for the scheduled times of a job from From to To that have no run that
// succeeded.
type Backfill struct {
	Job      string
	From     time.Time
	To       time.Time // not in the future; zero: now
	Parallel int       // the maximum number of its runs that have not ended; 0 means 1
	// Key makes the request idempotent: if the actor repeats it with the same Key, From, To and
	// Parallel, the result is the first backfill. A zero To counts as the same in each request.
	// "": no key. At most 200 bytes.
	Key string

	Actor  string // for the audit log; "" is the program
	Reason string // for the audit log
}

// Backfill adds a backfill. Replicas add and start its runs, the oldest first, even after this
// replica has stopped. Operations.PlanBackfill returns what it would do. Operations.ReadBackfill
// returns its progress. Operations.CancelBackfill ends it.
//
// The errors are those of Operations.Backfill. Before Open the error is ErrNotOpen, and after Run
// has returned it is ErrStopped.
func (r *Replica) Backfill(ctx context.Context, b Backfill) (storage.Backfill, error) {
	ops, err := r.operations()
	if err != nil {
		return storage.Backfill{}, fmt.Errorf("backfill: %w", err)
	}
	return ops.Backfill(ctx, storage.Action{Actor: b.Actor, Reason: b.Reason, Key: b.Key},
		operations.BackfillRequest{Job: b.Job, From: b.From, To: b.To, Parallel: b.Parallel})
}
