package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// cancelCommand returns the command "cancel".
func (c *commandLine) cancelCommand() *cobra.Command {
	return c.completes(c.actionCommand(&cobra.Command{
		Use: "cancel RUN", Short: "End a waiting or running run", Args: cobra.ExactArgs(1),
		Long: `End a run. A waiting run ends at once. For a running run, its replica cancels the
context of the handler within about a second. If the handler has not returned 10 s
later, the replica abandons it. The run makes no further attempts.`,
		Example: `  scheduler runs --state running
  scheduler cancel 01a1fecc-ef57-7d76-aac5-e8f353379cd3 --reason "wrong params"`,
	}, func(ctx context.Context, a *actionLine, args []string) error {
		id, err := uuid.Parse(args[0])
		if err != nil {
			return fmt.Errorf("run: expected an id from \"scheduler runs\", found %q", args[0])
		}
		return a.withCluster(ctx, func(in cluster) error {
			run, err := in.Cancel(ctx, a.reason, id)
			switch {
			case errors.Is(err, storage.ErrNotFound):
				return fmt.Errorf("cancel run %s: not found; list runs with \"scheduler runs\"", id)
			case errors.Is(err, storage.ErrConflict):
				return endedError(ctx, in, id, err)
			case err != nil:
				return askReplica(err)
			}
			return a.print(run, "RUN\tJOB\tSTATE\tREPLICA",
				[][]string{{run.ID.String(), run.Job, string(run.State), run.Replica}})
		})
	}), runsIn(jobs.Waiting, jobs.Running))
}

// askReplica adds to an error what to do if the run is inside a transaction. With SQLite, only the
// process of its replica can act on such a run.
func askReplica(err error) error {
	if errors.Is(err, sqlite.ErrOtherWriter) {
		return fmt.Errorf("%w; if the run is inside this transaction, name its replica in "+
			"--server", err)
	}
	return err
}

// endedError returns the error for a run that has ended before it could be cancelled.
func endedError(ctx context.Context, in cluster, id uuid.UUID, refused error) error {
	run, err := in.Run(ctx, id)
	if err != nil {
		return errors.Join(refused, err)
	}
	return fmt.Errorf("cancel run %s: it has already ended: %s at %s", id, run.State,
		clock(run.FinishedAt))
}
