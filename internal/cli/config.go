package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/ansi"
)

// configCommand returns the command "config".
func (c *commandLine) configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Work with the configuration of replicas"}
	cmd.AddCommand(c.configReloadCommand())
	return cmd
}

func (c *commandLine) configReloadCommand() *cobra.Command {
	return c.actionCommand(&cobra.Command{
		Use: "reload", Short: "Make a replica read its configuration again", Args: cobra.NoArgs,
		Long: `Make the replica at --server read its configuration again, like SIGHUP: jobs, access
to the admin page, and the log level. If the configuration has a mistake, nothing
changes, and the log of the replica lists the mistakes. The output names the changed
jobs, and changed keys that need a restart.

Each replica reads its own file. The command reloads one replica, and a note on standard
error names the other live replicas. Use the address of each replica to reload all:
a load balancer chooses one.`,
		Example: `  scheduler config reload --server https://web-1.internal:8080 --token-file token
  for host in web-1 web-2 web-3; do
    scheduler config reload --server https://$host.internal:8080 --token-file token
  done`,
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
		if err := a.print(done, "REPLICA\tADDED\tCHANGED\tREMOVED\tNEED A RESTART",
			[][]string{{done.Replica, names(done.Added), names(done.Changed),
				names(done.Removed), names(done.Restart)}}); err != nil {
			return err
		}
		return a.noteOthers(ctx, client, done.Replica)
	})
}

// noteOthers writes a note about live replicas that were not reloaded to standard error. It returns
// no error if they cannot be listed, because the reload has succeeded.
func (c *commandLine) noteOthers(ctx context.Context, in state, reloaded string) error {
	list, err := in.Replicas(ctx)
	if err != nil {
		_, err = fmt.Fprintf(c.errOut, "scheduler: only %s has reloaded; the other replicas "+
			"cannot be listed: %s\n", printable(reloaded), ansi.Plain(err.Error()))
		return err
	}
	var others []string
	for _, r := range list {
		if r.Live() && r.Name != reloaded && !slices.Contains(others, r.Name) {
			others = append(others, printable(r.Name))
		}
	}
	if len(others) == 0 {
		return nil
	}
	_, err = fmt.Fprintf(c.errOut, "scheduler: only %s has reloaded; to reload %s, use the "+
		"address of each as --server, or send SIGHUP\n", printable(reloaded),
		strings.Join(others, ", "))
	return err
}
