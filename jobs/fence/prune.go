package fence

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/jobs"
)

const lastReaders = "SELECT name, max(token) FROM holdfast_fence.readers " +
	"WHERE cluster = ? GROUP BY name HAVING count(*) > 1"

// Prune deletes what the run's cluster no longer needs:
//   - rows of commits that are older than keep. keep must be longer than the retention of the
//     history: without its row, a later attempt or recovery of a firing would repeat the effects.
//   - the rows of readers for a name, except the one with the largest token
//
// Use a transaction of its own. The scheduler prunes the databases of its configuration.
func Prune(ctx context.Context, run *jobs.Run, tx Tx, keep time.Duration) error {
	return PruneCluster(ctx, run.Internal(attempt.NewKey()).Cluster, tx, keep)
}

// PruneCluster is Prune for a cluster by its id.
func PruneCluster(ctx context.Context, cluster uuid.UUID, tx Tx, keep time.Duration) error {
	if _, err := tx.exec(ctx, tx.dialect.pruneCommits, cluster.String(),
		keep.Seconds()); err != nil {
		return fmt.Errorf("prune commits of the fence: %w", err)
	}
	last := map[string]int64{}
	err := tx.Query(ctx, func(scan func(...any) error) error {
		var name string
		var reader int64
		err := scan(&name, &reader)
		last[name] = reader
		return err
	}, tx.dialect.in(lastReaders), cluster.String())
	for name, reader := range last {
		if err == nil {
			_, err = tx.exec(ctx, deleteReaders, cluster.String(), name, reader-1)
		}
	}
	if err != nil {
		return fmt.Errorf("prune readers of the fence: %w", err)
	}
	return nil
}
