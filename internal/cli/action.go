package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// actionLine is a command line whose command performs an action.
type actionLine struct {
	*commandLine
	reason string
}

// actionCommand gives cmd the flag --reason, and run as its function.
func (c *commandLine) actionCommand(
	cmd *cobra.Command, run func(ctx context.Context, a *actionLine, args []string) error,
) *cobra.Command {
	a := &actionLine{commandLine: c}
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), a, args) }
	cmd.Flags().StringVar(&a.reason, "reason", "", "`reason` for the audit log")
	return cmd
}

// action returns actor and reason for the audit log. The actor is the user of the process.
func (a *actionLine) action() storage.Action {
	actor := os.Getenv("USER")
	if account, err := user.Current(); err == nil {
		actor = account.Username
	}
	if actor == "" {
		actor = "unknown"
	}
	return storage.Action{Actor: actor, Via: "cli", Reason: a.reason}
}

// changedMeanwhile is the advice for a job that another operator has changed at the same time.
const changedMeanwhile = "another operator changed the job at the same time; check it and try again"

// withJobAdvice adds advice to the error for a job that the store does not have.
func withJobAdvice(err error, job string) error {
	if errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("job %q: not found in the store; check that a replica with this job runs",
			job)
	}
	return err
}

// withAdvice adds advice to the error for an action on a job of the configuration.
func withAdvice(err error) error {
	if errors.Is(err, storage.ErrFromConfig) {
		return fmt.Errorf("%w; change it there and deploy", err)
	}
	return err
}
