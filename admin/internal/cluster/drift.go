package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// deployTime is how long after a replica's start different cron tables count as a deploy.
	deployTime = 2 * time.Minute
	// maxDrifted is the number of jobs that a problem names.
	maxDrifted = 10
)

// DriftedJobs returns the jobs whose definitions differ between live replicas. It queries the store
// only if their cron tables differ.
func (r *Reader) DriftedJobs(ctx context.Context, replicas []Replica) ([]storage.JobDrift,
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

// driftProblems reports live replicas with different cron tables.
func driftProblems(o *Overview, add func(Severity, string, ...any)) {
	different := cronTables(o.Replicas)
	if len(different) < 2 {
		return
	}
	var groups []string
	for _, names := range different {
		groups = append(groups, strings.Join(names, ", "))
	}
	slices.Sort(groups)
	which := make([]string, 0, maxDrifted)
	for _, job := range o.Drift[:min(len(o.Drift), maxDrifted)] {
		which = append(which, job.String())
	}
	if more := len(o.Drift) - maxDrifted; more > 0 {
		which = append(which, "and "+words.Plural(more, "job", "jobs")+" more")
	}
	jobs := ""
	if len(which) > 0 {
		jobs = " " + strings.Join(which, ". ") + "."
	}
	deploy := slices.ContainsFunc(o.Replicas, func(r Replica) bool {
		return r.Live() && o.Now.Sub(r.StartedAt) < deployTime
	})
	if deploy {
		add(Notice, "A deploy seems to be under way: the replicas have %s different cron tables "+
			"(%s). Replicas with the newest definition of a job fire it.%s",
			words.Number(len(different)), strings.Join(groups, " / "), jobs)
		return
	}
	add(Notice, "The replicas have %s different cron tables (%s), and no deploy is under way. "+
		"Replicas with the newest definition of a job fire it.%s",
		words.Number(len(different)), strings.Join(groups, " / "), jobs)
}

// notReadyProblems reports live replicas that start no runs. It leaves out the replica that serves
// the page, which reports itself.
func notReadyProblems(o *Overview, add func(Severity, string, ...any)) {
	for _, r := range o.Replicas {
		if r.Live() && r.NotReady != "" && r.Session.String() != o.ServedBy.Session {
			add(Alarm, "%s starts no runs: %s", r.Name, words.Sentence(words.OneLine(r.NotReady,
				300)))
		}
	}
}
