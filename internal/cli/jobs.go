package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// jobsCommand returns the command "jobs".
func (c *commandLine) jobsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "jobs", Short: "List the jobs in the store, each with its last run",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return c.withStore(ctx, func(config *configs.Config, store app.Storage) error {
				scheduledTimes, err := c.nextScheduledTimes(ctx, config, store)
				if err != nil {
					return err
				}
				list, err := admin.Jobs(ctx, store, scheduledTimes)
				if err != nil {
					return err
				}
				rows := make([][]string, len(list))
				for i, j := range list {
					rows[i] = []string{j.Name, j.Schedule, j.Timezone, j.Handler,
						resourceNames(j.Resources), clock(j.NextScheduledAt), lastRun(j.LastRun)}
				}
				return c.print(list, "JOB\tSCHEDULE\tZONE\tHANDLER\tRESOURCES\tNEXT "+
					"SCHEDULED\tLAST RUN", rows)
			})
		},
	}
}

// nextScheduledTimes returns a function that gives the next scheduled times of a configured or
// added job. It gives none for an added job that this configuration cannot parse.
func (c *commandLine) nextScheduledTimes(
	ctx context.Context, config *configs.Config, store app.Storage,
) (func(job string, from time.Time, n int) []time.Time, error) {
	registry, err := app.NewRegistry(c.program.Handlers)
	if err != nil {
		return nil, err
	}
	now, err := store.ControlState(ctx, uuid.Nil, 0)
	if err != nil {
		return nil, fmt.Errorf("read added jobs: %w", err)
	}
	schedules := make(map[string]schedule.Schedule, len(config.Jobs)+len(now.Specs))
	specs := app.SpecParser{Config: func() *configs.Config { return config }, Registry: registry}
	for _, s := range now.Specs {
		if job, err := specs.Build(s.Text); err == nil {
			schedules[s.Job] = job.Schedule
		}
	}
	for _, j := range config.Jobs {
		schedules[j.Name] = j.Schedule
	}
	return func(job string, from time.Time, n int) []time.Time {
		return schedule.ScheduledTimes(schedules, job, from, n)
	}, nil
}

// resourceNames returns the names of resources as one cell.
func resourceNames(resources []admin.Resource) string {
	names := make([]string, len(resources))
	for i, r := range resources {
		names[i] = r.Resource
	}
	return strings.Join(names, ", ")
}

// lastRun returns state and end of a run as one cell.
func lastRun(r *storage.Record) string {
	if r == nil {
		return "never"
	}
	return fmt.Sprintf("%s, %s", r.State, clock(r.FinishedAt))
}
