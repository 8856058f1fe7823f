package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func (c *commandLine) undrainCommand() *cobra.Command {
	return c.actionCommand(&cobra.Command{
		Use: "undrain REPLICA", Short: "Have a replica start runs again", Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, a *acting, args []string) error {
		return a.drain(ctx, args[0], false)
	})
}
