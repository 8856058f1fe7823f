package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/configs"
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

func (c *commandLine) validateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "validate", Short: "Check the configuration, and say all that is wrong with it",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			config, err := c.load()
			if err != nil {
				return err
			}
			return c.print(map[string]any{"config": c.configPath, "jobs": len(config.Jobs),
				"valid": true},
				fmt.Sprintf("%s is valid: %d jobs", c.configPath, len(config.Jobs)), nil)
		},
	}
}

func (c *commandLine) migrateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "migrate", Short: "Bring the database's schema up to date", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := c.load()
			if err != nil {
				return err
			}
			config.Database.Migrate = true
			log, _, _ := app.NewLog(configs.Log{Level: "info", Format: config.Log.Format}, os.Stderr)
			store, err := app.OpenStore(cmd.Context(), config, true, log)
			if err != nil {
				return err
			}
			defer store.Close()
			return c.print(map[string]any{"cluster": store.ClusterID()},
				fmt.Sprintf("schema is up to date, cluster %s", store.ClusterID()), nil)
		},
	}
}

func (c *commandLine) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return c.print(map[string]string{"version": app.Version()}, "holdfast "+app.Version(), nil)
		},
	}
}
