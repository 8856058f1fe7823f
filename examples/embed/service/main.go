package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/examples/embed/sales"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "service:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("service", flag.ContinueOnError)
	path := flags.String("c", "holdfast.yaml", "configuration `file`")
	listen := flags.String("listen", "127.0.0.1:8000", "the service's own `address`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	log := zerolog.New(zerolog.SyncWriter(os.Stderr)).With().Timestamp().Logger()

	replica, err := holdfast.New(holdfast.WithConfigFile(*path), holdfast.WithAdmin(admin.Page),
		holdfast.WithDriver(sqlite.Driver), // the file names a SQLite database
		holdfast.WithHandlers(sales.Handlers()...), holdfast.WithLog(log, os.Stderr))
	if err != nil {
		return err
	}
	// What is wrong with either address or the database is an error here,
	// before anything is fired.
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	if err := replica.Open(ctx); err != nil {
		return errors.Join(err, listener.Close())
	}
	log.Info().Stringer("address", listener.Addr()).Str("page", replica.AdminAddr()).
		Msg("service started")

	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return serve(ctx, listener, replica) })
	both.Go(func() error { return replica.Run(ctx) }) // until ctx ends, then gracefully
	return both.Wait()
}

// serve answers for the service until ctx ends.
func serve(ctx context.Context, listener net.Listener, replica *holdfast.Replica) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, r *http.Request) {
		if err := replica.Ready(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	operate(mux, replica)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		stopped <- server.Shutdown(grace)
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}
