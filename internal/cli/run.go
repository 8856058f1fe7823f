package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/internal/systemd"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/otlp"
)

// runCommand returns the command "run".
func (c *commandLine) runCommand() *cobra.Command {
	return &cobra.Command{
		Use: "run", Short: "Run a replica until SIGINT or SIGTERM", Args: cobra.NoArgs,
		Long: `Run a replica until SIGINT or SIGTERM. The replica then starts no more runs and
waits for its running runs, at most for shutdown_grace. Other replicas take over the
runs that have not started. A second signal ends the process at once. Signals within
half a second of the first one do not count.

SIGHUP reloads the configuration: jobs, access to the admin page, and the log level.
If the configuration has a mistake, the replica logs it and changes nothing. The log
names changed keys that need a restart.

While the database does not answer at the start, the replica waits for it and logs
that. Until the database answers, the replica serves no page.

Unless GOGC is set, the replica collects garbage when the heap has grown to two and a
half times what is in use, but not before 64 MB of garbage have gathered.

Under systemd with Type=notify, the replica tells systemd when it has started,
reloads or stops, and that it is alive (WatchdogSec).`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := c.load()
			if err != nil {
				return err
			}
			reloads := make(chan os.Signal, 1)
			notifyReload(reloads) // from here on, SIGHUP does not end the process
			defer signal.Stop(reloads)
			if err := hideMemory(); err != nil {
				return err
			}
			manager, err := systemd.New(os.Getenv, os.Getpid())
			if err != nil {
				return err
			}
			program := c.program
			program.Load, program.Exporter = c.load, otlp.Exporter
			program.Driver, program.Page = sqlite.Driver, admin.Page
			replica, err := app.New(config, program)
			if err != nil {
				return err
			}
			err = replica.OpenWhenAvailable(cmd.Context())
			if err != nil && cmd.Context().Err() != nil {
				return nil // stopped while it waited for the database
			}
			if err != nil {
				return err
			}
			collecting, end := context.WithCancel(cmd.Context())
			defer end()
			collections{decided: func(int) {}}.run(collecting, os.Getenv)
			return c.runReloading(cmd.Context(), app.NewSupervisor(replica, manager), reloads)
		},
	}
}

// runReloading runs the replica and reloads its configuration at each signal in reloads.
func (c *commandLine) runReloading(
	ctx context.Context, replica *app.Supervisor, reloads <-chan os.Signal,
) error {
	ctx, stop := context.WithCancel(ctx)
	var reloading sync.WaitGroup
	reloading.Go(func() {
		for {
			select {
			case <-reloads:
				_ = replica.Reload(c.load) // Reload logs and counts its errors
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
