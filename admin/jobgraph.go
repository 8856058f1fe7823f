package admin

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/explain"
)

// dependencies are the edges between the jobs of this replica's cron table.
type dependencies struct{ after, dependents map[string][]string }

// After returns the dependencies of a job, by name.
func (d dependencies) After(job string) []string { return d.after[job] }

// Dependents returns the jobs that depend on a job, by name.
func (d dependencies) Dependents(job string) []string { return d.dependents[job] }

// readDependencies reads the edges from a cron table, which may be nil. With many jobs that takes
// milliseconds, so callers cache the result.
func readDependencies(table explain.Table) func(context.Context, time.Time) (dependencies, error) {
	return func(context.Context, time.Time) (dependencies, error) {
		d := dependencies{make(map[string][]string), make(map[string][]string)}
		if table == nil {
			return d, nil
		}
		names := slices.Sorted(slices.Values(table.Names()))
		for _, name := range names {
			job, _ := table.Job(name)
			for _, before := range job.Schedule.After() {
				d.after[name] = append(d.after[name], before)
				d.dependents[before] = append(d.dependents[before], name)
			}
		}
		return d, nil
	}
}
