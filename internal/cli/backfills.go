package cli

import (
	"context"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// backfills are the backfills of a cluster.
type backfills interface {
	// Backfills returns backfills, newest first.
	Backfills(ctx context.Context, f storage.BackfillFilter) ([]storage.Backfill, error)
	Backfill(ctx context.Context, id uuid.UUID) (storage.Backfill, error)
	PlanBackfill(ctx context.Context,
		r operations.BackfillRequest) (operations.BackfillPlan, error)
	AddBackfill(ctx context.Context, reason, key string,
		r operations.BackfillRequest) (storage.Backfill, error)
	CancelBackfill(ctx context.Context, reason string, id uuid.UUID) (storage.Backfill, error)
}

// backfillsIn returns a function that lists ids of backfills in a state, each with its job.
func backfillsIn(state storage.BackfillState) namesIn {
	return func(ctx context.Context, in cluster) ([]string, error) {
		list, err := in.Backfills(ctx, storage.BackfillFilter{State: state, Limit: completedRuns})
		offered := make([]string, len(list))
		for i, b := range list {
			offered[i] = cobra.CompletionWithDesc(b.ID.String(),
				printable(b.Job)+" "+string(b.State))
		}
		return offered, err
	}
}
