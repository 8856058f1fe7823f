package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// actionLine is a command line whose command performs an action.
type actionLine struct {
	*commandLine
	reason string
}

// actionCommand gives cmd the flag --reason, and run as its function. The command can ask a server.
func (c *commandLine) actionCommand(
	cmd *cobra.Command, run func(ctx context.Context, a *actionLine, args []string) error,
) *cobra.Command {
	a := &actionLine{commandLine: c}
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), a, args) }
	cmd.Flags().StringVar(&a.reason, "reason", "", "`reason` for the audit log")
	return remotely(cmd)
}

// checkKey returns an error for an empty --key, as in --key "$KEY" without a variable KEY. Without
// a key, repeating the command would repeat the action.
func checkKey(cmd *cobra.Command) error {
	if key := cmd.Flags().Lookup("key"); key.Changed && key.Value.String() == "" {
		return errors.New("--key: found nothing, expected a key")
	}
	return nil
}

// changedMeanwhile is the advice for a job that another operator has changed at the same time.
const changedMeanwhile = "another operator changed the job at the same time; check it and try again"

// withAdvice adds advice to the error for an action on a job of the configuration.
func withAdvice(err error) error {
	if errors.Is(err, storage.ErrFromConfig) {
		return fmt.Errorf("%w; change it there and deploy", err)
	}
	return err
}
