package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// jobsCommand returns the command "jobs".
func (c *commandLine) jobsCommand() *cobra.Command {
	return remotely(&cobra.Command{
		Use: "jobs", Short: "List the jobs in the store, each with its last run",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withCluster(cmd.Context(), func(in cluster) error {
				list, err := in.Jobs(cmd.Context())
				if err != nil {
					return err
				}
				rows := make([][]string, len(list))
				for i, j := range list {
					rows[i] = []string{j.Name, j.Schedule, j.Timezone, j.Handler,
						resourceNames(j.Resources), nextScheduled(j), lastRun(j.LastRun)}
				}
				return c.print(list, "JOB\tSCHEDULE\t~ZONE\t~HANDLER\t…RESOURCES\t"+
					"NEXT SCHEDULED\tLAST RUN", rows)
			})
		},
	})
}

// resourceNames returns the names of resources as one cell.
func resourceNames(resources []admin.Resource) string {
	names := make([]string, len(resources))
	for i, r := range resources {
		names[i] = r.Resource
	}
	return strings.Join(names, ", ")
}

// nextScheduled returns the next scheduled time of a job as one cell, with a mark if the job does
// not start then, because a pause covers it or no live replica has it.
func nextScheduled(j admin.Job) string {
	next := clock(j.NextScheduledAt)
	switch {
	case j.AbsentSince != nil:
		return next + " (on no replica)"
	case len(j.Pauses) > 0:
		return next + " (paused)"
	}
	return next
}

// lastRun returns state and end of a run as one cell.
func lastRun(r *storage.Record) string {
	if r == nil {
		return "never"
	}
	return fmt.Sprintf("%s, %s", r.State, clock(r.FinishedAt))
}
