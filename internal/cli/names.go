package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// nameTimeout bounds a question for names, which only help with a wrong or unfinished name.
const nameTimeout = 2 * time.Second

// namesIn lists names of a cluster.
type namesIn func(ctx context.Context, in cluster) ([]string, error)

// hintIn returns the most similar name of a cluster as the end of an error, or "".
func hintIn(ctx context.Context, in cluster, name string, names namesIn) string {
	ctx, cancel := context.WithTimeout(ctx, nameTimeout)
	defer cancel()
	known, err := names(ctx, in)
	if err != nil {
		return "" // the caller has an error already
	}
	return didYouMean(name, known)
}

// checkName reports whether name, of a group or a replica, is among the names of a cluster. It
// returns an error with the most similar name if there is one. Without one, the name may be right:
// a group can be paused before its first job is deployed, and the history has runs of former
// replicas.
func checkName(ctx context.Context, in cluster, what, name string, names namesIn) (bool, error) {
	known, err := names(ctx, in)
	if err != nil || slices.Contains(known, name) {
		return err == nil, err
	}
	if hint := didYouMean(name, known); hint != "" {
		return false, fmt.Errorf("%s %q: not found in the store%s", what, name, hint)
	}
	return false, nil
}

// checkGroup returns the error of checkName for a group, and writes a note if no job is in it.
func (c *commandLine) checkGroup(ctx context.Context, in cluster, group string) error {
	known, err := checkName(ctx, in, "group", group, groupsIn)
	if err == nil && !known {
		fmt.Fprintf(c.errOut, "scheduler: note: no job is in group %q now\n", group)
	}
	return err
}

// checkReplica returns the error of checkName for a replica, and writes a note if it is not listed.
func (c *commandLine) checkReplica(ctx context.Context, in cluster, replica string) error {
	known, err := checkName(ctx, in, "replica", replica, replicasIn)
	if err == nil && !known {
		fmt.Fprintf(c.errOut, "scheduler: note: no replica has the name %q now\n", replica)
	}
	return err
}

// withJobAdvice adds advice to the error for a job that the store or the configuration of the
// command does not have.
func withJobAdvice(ctx context.Context, in cluster, err error, job string) error {
	if !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, nameTimeout)
	defer cancel()
	list, _ := in.Jobs(ctx) // there is an error already
	names := make([]string, len(list))
	for i, j := range list {
		if names[i] = j.Name; j.Name == job && !j.Removed {
			return fmt.Errorf("%w: give its address in --server", err)
		}
	}
	hint := didYouMean(job, names)
	if hint == "" {
		hint = "; check that a replica with this job runs"
	}
	return fmt.Errorf("job %q: not found in the store%s", job, hint)
}

// jobsIn returns the names of all jobs.
func jobsIn(ctx context.Context, in cluster) ([]string, error) {
	list, err := in.Jobs(ctx)
	names := make([]string, len(list))
	for i, j := range list {
		names[i] = j.Name
	}
	return names, err
}

// addedJobsIn returns the names of the jobs that were added at run time.
func addedJobsIn(ctx context.Context, in cluster) (names []string, err error) {
	list, err := in.Jobs(ctx)
	for _, j := range list {
		if j.Source == storage.FromStore && !j.Removed {
			names = append(names, j.Name)
		}
	}
	return names, err
}

// groupsIn returns the names of the groups of jobs.
func groupsIn(ctx context.Context, in cluster) (names []string, err error) {
	list, err := in.Jobs(ctx)
	for _, j := range list {
		if j.Group != "" {
			names = append(names, j.Group)
		}
	}
	return names, err
}

// replicasIn returns the names of all replicas that are listed.
func replicasIn(ctx context.Context, in cluster) (names []string, err error) {
	list, err := in.Replicas(ctx)
	for _, r := range list {
		names = append(names, r.Name)
	}
	return names, err
}

// liveReplicasIn returns a function that lists the live replicas that drain, or those that do not.
// It leaves out replicas that are stopping.
func liveReplicasIn(draining bool) namesIn {
	return func(ctx context.Context, in cluster) (names []string, err error) {
		list, err := in.Replicas(ctx)
		for _, r := range list {
			if r.Live() && !r.Stopping && r.Draining == draining {
				names = append(names, r.Name)
			}
		}
		return names, err
	}
}

// lostReplicasIn returns the names of the lost replicas.
func lostReplicasIn(ctx context.Context, in cluster) (names []string, err error) {
	list, err := in.Replicas(ctx)
	for _, r := range list {
		if r.EndedAt != nil && r.Lost() && !slices.Contains(names, r.Name) {
			names = append(names, r.Name)
		}
	}
	return names, err
}

// lockedIn returns the names of the locked resources.
func lockedIn(ctx context.Context, in cluster) ([]string, error) {
	list, err := in.Locks(ctx)
	names := make([]string, len(list))
	for i, l := range list {
		names[i] = l.Resource
	}
	return names, err
}

// webhooksIn returns the names of webhooks with undelivered events.
func webhooksIn(ctx context.Context, in cluster) ([]string, error) {
	list, err := in.Undelivered(ctx, storage.UndeliveredFilter{Limit: storage.MaxBatch})
	names := make([]string, len(list))
	for i, u := range list {
		names[i] = u.Webhook
	}
	return names, err
}

// pausedIn returns a function that lists the paused targets of a kind.
func pausedIn(kind storage.TargetKind) namesIn {
	return func(ctx context.Context, in cluster) (names []string, err error) {
		list, err := in.Pauses(ctx)
		for _, p := range list {
			if p.Target.Kind == kind {
				names = append(names, p.Target.Name)
			}
		}
		return names, err
	}
}
