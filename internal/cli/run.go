package cli

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
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
waits for its running runs, at most for shutdown_grace. A second signal ends the
process at once. Signals within half a second of the first one do not count.

SIGHUP reloads the configuration: jobs, access to the admin page, and the log level.
If the configuration has a mistake, the replica logs it and changes nothing. The log
names changed keys that need a restart.

While the database does not answer at the start, the replica waits for it and logs
that. Until the database answers, the replica serves no page.

The replica collects garbage as with GOGC=150, unless GOGC is set.

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
			collectLessOften(os.Getenv)
			return c.runReloading(cmd.Context(), app.NewSupervisor(replica, manager), reloads)
		},
	}
}

// gcPercent is by how many percent the heap of a replica may grow, from what is in use, until the
// next garbage collection. Most of the heap, such as the cron table, stays in use, and each
// collection reads all of it. Go's 100 costs more processor time, and 200 costs more memory: with
// 9,000 jobs and many requests for pages, a replica took 440 MB instead of 250.
const gcPercent = 150

// collectLessOften sets gcPercent, unless the environment sets it. A replica calls it after its
// start, which uses the most memory.
func collectLessOften(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
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
