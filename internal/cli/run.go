package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/app"
)

func (c *commandLine) runCommand() *cobra.Command {
	return &cobra.Command{
		Use: "run", Short: "Run a replica until it is told to stop", Args: cobra.NoArgs,
		Long: `Run a replica until SIGINT or SIGTERM. It then starts nothing more and lets its runs end. A second signal ends the process at once.
SIGHUP reloads the configuration: the jobs, who may use the page, and the log's level. A mistake in it is logged, and changes nothing.
What needs a restart is named in the log.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := c.load()
			if err != nil {
				return err
			}
			asked := make(chan os.Signal, 1)
			notifyReload(asked) // from here on, a signal does not end the process
			defer signal.Stop(asked)
			replica, err := app.New(config, app.Options{Handlers: c.handlers})
			if err != nil {
				return err
			}
			if err := replica.Open(cmd.Context()); err != nil {
				return err
			}
			return c.runReloading(cmd.Context(), replica, asked)
		},
	}
}

// runReloading runs the replica, and reloads its configuration each time that it is asked to.
func (c *commandLine) runReloading(ctx context.Context, replica *app.Replica,
	asked <-chan os.Signal) error {
	ctx, stop := context.WithCancel(ctx)
	var reloading sync.WaitGroup
	reloading.Go(func() {
		for {
			select {
			case <-asked:
				_ = replica.Reload(c.load) // it has been logged and counted
			case <-ctx.Done():
				return
			}
		}
	})
	err := replica.Run(ctx)
	stop()
	reloading.Wait()
	return err
}
