package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs"
)

func (c *commandLine) cancelCommand() *cobra.Command {
	return c.actionCommand(&cobra.Command{
		Use: "cancel RUN", Short: "End a run that waits or runs", Args: cobra.ExactArgs(1),
		Long: `End a run. One that waits ends at once. One that runs is asked to end through its replica, within about a second: it ends when
its handler heeds the end of its context, or is left behind 10 s later. Further attempts are not made.`,
	}, func(ctx context.Context, a *acting, args []string) error {
		id, err := uuid.Parse(args[0])
		if err != nil {
			return fmt.Errorf("expected a run's id as scheduler runs shows it, found %q", args[0])
		}
		return a.withOperations(ctx, func(ops *jobs.Operations, store jobs.Store) error {
			run, err := ops.Cancel(ctx, a.action(), id)
			switch {
			case errors.Is(err, jobs.ErrNotFound):
				return fmt.Errorf("no run has the id %s: scheduler runs lists them", id)
			case errors.Is(err, jobs.ErrConflict):
				return a.ended(ctx, store, id, err)
			case err != nil:
				return err
			}
			return a.print(run, "RUN\tJOB\tSTATE\tREPLICA",
				[][]string{{run.ID.String(), run.Job, string(run.State), run.Replica}})
		})
	})
}

// ended says how a run that can't be cancelled has ended.
func (a *acting) ended(ctx context.Context, store jobs.Store, id uuid.UUID, refused error) error {
	run, err := store.Run(ctx, id)
	if err != nil {
		return errors.Join(refused, err)
	}
	return fmt.Errorf("run %s has ended already, as %s at %s", id, run.State, clock(run.FinishedAt))
}
