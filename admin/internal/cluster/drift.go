package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// deployTime is how long after a replica's start different cron tables count as a deploy.
	deployTime = 2 * time.Minute
	// maxDrifted is the number of jobs that a problem names.
	maxDrifted = 10
)

// driftedJobs returns the jobs whose definitions differ between live replicas. It queries the store
// only if their cron tables differ.
func (r *Reader) driftedJobs(ctx context.Context, replicas []Replica) ([]storage.JobDrift,
	error) {
	if len(cronTables(replicas)) < 2 {
		return nil, nil
	}
	drift, err := r.Store.Drift(ctx, storage.MaxBatch)
	if err != nil {
		return nil, fmt.Errorf("drift: %w", err)
	}
	return drift, nil
}

// cronTables returns the names of the live replicas by the hash of their cron table.
func cronTables(replicas []Replica) map[string][]string {
	names := make(map[string][]string)
	for _, r := range replicas {
		if r.Live() && r.ConfigHash != "" {
			names[r.ConfigHash] = append(names[r.ConfigHash], r.Name)
		}
	}
	return names
}
