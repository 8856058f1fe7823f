package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/cli"
)

func main() {
	if startedAsReplica(os.Args) {
		runReplica()
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "warehouse:", err)
		os.Exit(1)
	}
}

// startedAsReplica reports whether this process is one that the program
// started as PROGRAM run -c CONFIG.
func startedAsReplica(args []string) bool { return len(args) > 1 && args[1] == "run" }

// runReplica runs a replica with the warehouse's jobs. DATABASE_URL names the database.
func runReplica() {
	pool, err := openPool(context.Background(), os.Getenv("DATABASE_URL"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "warehouse:", err)
		os.Exit(1)
	}
	defer pool.Close()
	cli.Main(holdfast.WithHandlers(handlers(pool)...))
}

// openPool opens the pool of the jobs in Go. Its sessions have the name of the store's sessions, so
// that the server's log counts them as sessions of a replica.
func openPool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.RuntimeParams["application_name"] = "holdfast"
	return pgxpool.NewWithConfig(ctx, config)
}

// run runs both phases and prints what they measured. It returns an error
// when they don't show what they are to show.
func run(ctx context.Context, args []string, out, errOut io.Writer) error {
	o, err := parseOptions(args, errOut)
	if err != nil {
		return err
	}
	if o.program, err = os.Executable(); err != nil {
		return fmt.Errorf("path of this program: %w", err)
	}
	m, err := measure(ctx, o, out)
	if err != nil {
		return err
	}
	if err := m.print(out); err != nil {
		return err
	}
	return m.check()
}
