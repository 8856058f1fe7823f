package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// removeCommand returns the command "remove".
func (c *commandLine) removeCommand() *cobra.Command {
	return c.completes(c.actionCommand(&cobra.Command{
		Use: "remove JOB", Short: "Remove an added job; its running runs continue",
		Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, a *actionLine, args []string) error {
		return a.withCluster(ctx, func(in cluster) error {
			err := in.RemoveJob(ctx, a.reason, args[0])
			switch {
			case errors.Is(err, storage.ErrNotFound):
				return fmt.Errorf("remove job %q: no added job has this name%s", args[0],
					hintIn(ctx, in, args[0], addedJobsIn))
			case errors.Is(err, storage.ErrHasDependents): // also an ErrConflict
				return err
			case errors.Is(err, storage.ErrConflict):
				return fmt.Errorf("%w: %s", err, changedMeanwhile)
			case err != nil:
				return withAdvice(err)
			}
			return a.print(map[string]any{"job": args[0], "removed": true}, "REMOVED",
				[][]string{{args[0]}})
		})
	}), addedJobsIn)
}
