package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
)

// configCommand returns the command "config".
func (c *commandLine) configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Work with the configuration of replicas"}
	cmd.AddCommand(c.configReloadCommand())
	return cmd
}

func (c *commandLine) configReloadCommand() *cobra.Command {
	return c.actionCommand(&cobra.Command{
		Use: "reload", Short: "Have a replica read its configuration again", Args: cobra.NoArgs,
		Long: `Have the replica at --server read its configuration again, like SIGHUP: jobs, access
to the admin page, and the log level. If the configuration has a mistake, nothing
changes, and the log of the replica lists the mistakes. The output names the changed
jobs, and changed keys that need a restart.

A load balancer chooses a replica. Use the address of each replica to reload all.`,
		Example: `  scheduler config reload --server https://web-1.internal:8080 --token-file token`,
	}, func(ctx context.Context, a *actionLine, _ []string) error {
		if a.server == "" {
			return errors.New("config reload: expected --server, found none; to reload without " +
				"it, send SIGHUP to the replica, or use \"systemctl reload\"")
		}
		client, err := a.client()
		if err != nil {
			return err
		}
		defer client.Close()
		done, err := client.Reload(ctx, a.reason)
		if err != nil {
			return err
		}
		names := func(list []string) string { return strings.Join(list, ", ") }
		return a.print(done, "REPLICA\tADDED\tCHANGED\tREMOVED\tNEED A RESTART",
			[][]string{{done.Replica, names(done.Added), names(done.Changed),
				names(done.Removed), names(done.Restart)}})
	})
}
