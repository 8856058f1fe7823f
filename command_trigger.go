package holdfast

import (
	"errors"
	"fmt"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs"
)

func (c *commandLine) triggerCommand() *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use: "trigger JOB", Short: "Run a job now, on any replica", Args: cobra.ExactArgs(1),
		Long: `Run a job now: a replica takes the run up within about a second, and it waits for its tables like any other.
A key makes the call repeatable: the same key for the same job is the same run.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withStore(cmd.Context(), func(_ *configs.Config, store jobs.Store) error {
				run, err := store.Trigger(cmd.Context(), jobs.Act{Actor: operator(), Via: "cli"}, jobs.TriggerRequest{Job: args[0], Key: key})
				if errors.Is(err, jobs.ErrNotFound) {
					return fmt.Errorf("no job is called %q in the store: is a replica running with it?", args[0])
				}
				if err != nil {
					return err
				}
				return c.print(run, "RUN\tJOB\tKEY\tSTATE", [][]string{{run.ID.String(), run.Job, run.Key, string(run.State)}})
			})
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "idempotency `key` (default a new one)")
	return cmd
}

// operator returns who uses the command line.
func operator() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "unknown user"
}
