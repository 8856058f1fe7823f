package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// UntilSignal returns a context that the first SIGINT or SIGTERM ends. The
// second does what a signal does by default. Both are taken from one channel:
// were the default only restored after the first, a second that comes at once
// could be lost.
func UntilSignal() context.Context {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		<-signals
		stop()
		second := <-signals
		signal.Reset(os.Interrupt, syscall.SIGTERM)
		self, err := os.FindProcess(os.Getpid())
		if err != nil || self.Signal(second) != nil {
			os.Exit(1) // where a process can't send itself signals
		}
	}()
	return ctx
}

// Execute runs one command line with the program's own handlers.
func Execute(ctx context.Context, args []string, out, errOut io.Writer,
	handlers []jobs.Registration) error {
	c := &commandLine{handlers: handlers, out: out}
	root := &cobra.Command{
		Use: "scheduler", Short: "Run jobs on a schedule, once in the cluster, with the tables " +
			"that they write locked",
		SilenceUsage: true, SilenceErrors: true, DisableSuggestions: true, // an error is one line
	}
	root.PersistentFlags().StringVarP(&c.configPath, "config", "c", "holdfast.yaml",
		"configuration `file`")
	root.PersistentFlags().VarP(&c.format, "output", "o", "output `format`: table or json")
	root.AddCommand(c.runCommand(), c.demoCommand(), c.validateCommand(), c.nextCommand(),
		c.migrateCommand(),
		c.jobsCommand(), c.runsCommand(), c.locksCommand(), c.webhooksCommand(), c.pausesCommand(),
		c.auditCommand(),
		c.explainCommand(), c.triggerCommand(), c.pauseCommand(), c.resumeCommand(),
		c.cancelCommand(), c.releaseCommand(), c.drainCommand(), c.undrainCommand(),
		c.addCommand(), c.removeCommand(), c.hashPasswordCommand(), c.versionCommand())
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	return root.ExecuteContext(ctx)
}

// commandLine is what the commands share.
type commandLine struct {
	handlers   []jobs.Registration
	configPath string
	format     outputFormat
	out        io.Writer
}

// outputFormat is the flag -o.
type outputFormat string

// Set takes table or json.
func (f *outputFormat) Set(text string) error {
	if text != "table" && text != "json" {
		return errors.New(`expected "table" or "json"`)
	}
	*f = outputFormat(text)
	return nil
}

// String returns the format.
func (f *outputFormat) String() string {
	if *f == "" {
		return "table"
	}
	return string(*f)
}

// Type is what help shows.
func (f *outputFormat) Type() string { return "format" }

// load reads the configuration and checks it against the handlers.
func (c *commandLine) load() (*configs.Config, error) {
	registry, err := app.NewRegistry(c.handlers)
	if err != nil {
		return nil, err
	}
	return configs.Load(c.configPath, configs.WithHandlers(app.ParamChecker{Registry: registry}))
}

// withStore calls use with the configured store, opened beside the replicas
// that may be running.
func (c *commandLine) withStore(ctx context.Context,
	use func(*configs.Config, app.Storage) error) error {
	config, err := c.load()
	if err != nil {
		return err
	}
	store, err := app.OpenStore(ctx, config, false, zerolog.Nop())
	if err != nil {
		return err
	}
	defer store.Close()
	return use(config, store)
}

// withStage1 calls use with a locker that only looks, or nil where the locks
// are in the memory of another process or there are none.
func withStage1(ctx context.Context, config *configs.Config, store jobs.Store,
	use func(*locking.Locker) error) error {
	if config.Locking.Memcached == nil {
		return use(nil)
	}
	backend, err := app.NewLockBackend(config, zerolog.Nop())
	if err != nil {
		return err
	}
	defer backend.Close() //nolint:errcheck // nothing was held
	locker, err := app.NewLocker(config, backend, store, nil, zerolog.Nop())
	if err != nil {
		return err
	}
	return use(locker)
}

// print writes value as JSON, or rows as a table.
func (c *commandLine) print(value any, header string, rows [][]string) error {
	if c.format == "json" {
		encoder := json.NewEncoder(c.out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(value)
	}
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, header)
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(table, "\t")
			}
			fmt.Fprint(table, printable(cell))
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}
