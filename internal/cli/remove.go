package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs"
)

func (c *commandLine) removeCommand() *cobra.Command {
	return c.actionCommand(&cobra.Command{
		Use: "remove JOB", Short: "Remove a job that was added; what runs of it goes on",
		Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, a *acting, args []string) error {
		return a.withOperations(ctx, func(ops *jobs.Operations, _ jobs.Store) error {
			err := ops.RemoveJob(ctx, a.action(), args[0], jobs.AnyVersion)
			switch {
			case errors.Is(err, jobs.ErrNotFound):
				return fmt.Errorf("no job called %q was added", args[0])
			case errors.Is(err, jobs.ErrHasDependents):
				return explained(err)
			case errors.Is(err, jobs.ErrConflict):
				return fmt.Errorf("%w: somebody else changed it at the same time, look at it and "+
					"try again", err)
			case err != nil:
				return explained(err)
			}
			return a.print(map[string]any{"job": args[0], "removed": true}, "REMOVED",
				[][]string{{args[0]}})
		})
	})
}
