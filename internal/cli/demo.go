package cli

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
)

//go:embed demo.yaml
var demoConfig []byte

// demoReplicas is the number of replicas that the demo runs.
const demoReplicas = 3

// demoCommand returns the command "demo".
func (c *commandLine) demoCommand() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use: "demo", Short: "Run three replicas in one process that compete for the same tables",
		Args: cobra.NoArgs,
		Long: `Run three replicas in one process. The demo needs no other software. The replicas
share their jobs, locks in memory, and a history in a temporary file that the
command removes when it stops. Each replica serves the admin page on its own port.
All pages show the same cluster.`,
		Example: `  scheduler demo
  scheduler demo --listen 127.0.0.1:9000`,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.demo(cmd.Context(), listen) },
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8080",
		"`address` of the first replica; the others use the next ports, or any free port if the "+
			"port is 0")
	return cmd
}

// demo runs the replicas until ctx ends or one of them fails.
func (c *commandLine) demo(ctx context.Context, listen string) (err error) {
	addresses, err := consecutive(listen, demoReplicas)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	dir, err := os.MkdirTemp("", "holdfast-demo-")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	handlers := append([]jobs.Registration{jobs.Handle("pretend", pretend)}, c.program.Handlers...)
	registry, err := app.NewRegistry(handlers)
	if err != nil {
		return err
	}
	config, err := configs.Parse("demo.yaml", demoConfig,
		configs.WithHandlers(app.ParamChecker{Registry: registry}))
	if err != nil {
		return err
	}
	log, output, _ := app.NewLog(config.Log, os.Stderr)
	store, err := sqlite.Open(ctx, filepath.Join(dir, "demo.db"),
		sqlite.Options{Exclusive: true, Log: log})
	if err != nil {
		return err
	}
	defer store.Close()
	locks := app.InMemory()

	var running errgroup.Group
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for i, address := range addresses {
		own := *config
		own.Replica.Name, own.Admin.Listen = fmt.Sprintf("replica-%c", 'a'+i), address
		quiet := log.Level(zerolog.WarnLevel)
		replica, err := app.New(&own, app.Options{Handlers: handlers, Log: &quiet,
			LogOutput: output, Page: admin.Page,
			Shared: &app.Shared{Store: app.OfSQLite(store), Locks: locks}})
		if err == nil {
			err = replica.Open(ctx)
		}
		if err != nil {
			stop()
			return errors.Join(err, running.Wait())
		}
		fmt.Fprintf(c.out, "%s: http://%s\n", own.Replica.Name, replica.AdminAddr())
		running.Go(func() error {
			defer stop()
			return replica.Run(ctx)
		})
	}
	return running.Wait()
}

// consecutive returns n addresses with consecutive ports. If the port of first is 0, all have
// port 0.
func consecutive(first string, n int) ([]string, error) {
	host, port, err := net.SplitHostPort(first)
	if err != nil {
		return nil, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("expected a port number, found %q", port)
	}
	addresses := make([]string, n)
	for i := range addresses {
		addresses[i] = net.JoinHostPort(host, strconv.FormatUint(number, 10))
		if number != 0 {
			number++
		}
	}
	return addresses, nil
}

// pretendParams are the params of the handler pretend.
type pretendParams struct {
	Takes jobs.Duration `json:"takes"` // mean duration of an attempt
	Fails int           `json:"fails"` // one of this many attempts fails; 0: none
}

// pretend is a handler that only waits, and fails at random if its params say so.
func pretend(ctx context.Context, run *jobs.Run, p pretendParams) error {
	took := time.Duration(p.Takes) * time.Duration(75+rand.IntN(50)) / 100
	run.Log().Debug().Dur("takes", took).Msg("simulated work started")
	if err := sleep.For(ctx, took); err != nil {
		return err
	}
	if p.Fails > 0 && rand.IntN(p.Fails) == 0 {
		return errors.New("simulated failure: source did not answer")
	}
	return nil
}
