package cli

import (
	"context"

	"github.com/spf13/cobra"
)

// undrainCommand returns the command "undrain".
func (c *commandLine) undrainCommand() *cobra.Command {
	return c.completes(c.actionCommand(&cobra.Command{
		Use:   "undrain REPLICA",
		Short: "Allow a drained replica to start runs again",
		Args:  cobra.ExactArgs(1),
	}, func(ctx context.Context, a *actionLine, args []string) error {
		return a.drain(ctx, args[0], false)
	}), liveReplicasIn(true))
}
