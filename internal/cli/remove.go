package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// removeCommand returns the command "remove".
func (c *commandLine) removeCommand() *cobra.Command {
	return c.actionCommand(&cobra.Command{
		Use: "remove JOB", Short: "Remove an added job; its running runs continue",
		Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, a *actionLine, args []string) error {
		return a.withOperations(ctx, func(ops *operations.Operations, _ storage.History) error {
			err := ops.RemoveJob(ctx, a.action(), args[0], operations.AnyVersion)
			switch {
			case errors.Is(err, storage.ErrNotFound):
				return fmt.Errorf("remove job %q: no added job has this name", args[0])
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
	})
}
