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
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	command, args := runReplica, os.Args[1:]
	if len(args) > 0 && args[0] == "source" {
		command, args = runSource, args[1:]
	}
	switch err := command(ctx, args, zerolog.New(os.Stderr).With().Timestamp().Logger()); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "display:", err)
		os.Exit(1)
	}
}

// runSource serves lists that take a while.
func runSource(ctx context.Context, args []string, log zerolog.Logger) error {
	flags := flag.NewFlagSet("source", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:9000", "own `address`")
	takes := flags.Duration("takes", 3*time.Second, "how long each list takes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return serve(ctx, *listen, source{takes: *takes, log: log}.routes())
}

// runReplica serves lists that are computed once.
func runReplica(ctx context.Context, args []string, log zerolog.Logger) error {
	flags := flag.NewFlagSet("display", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:8000", "own `address`")
	servers := flags.String("memcached", "127.0.0.1:11211",
		"`addresses` of memcached, the same list on all replicas")
	from := flags.String("source", "http://127.0.0.1:9000", "`URL` beneath which the lists are")
	name := flags.String("name", "", "own `name` (default: the address)")
	ttl := flags.Duration("ttl", time.Minute, "how long a list is good for, 1s to 720h")
	lease := flags.Duration("lease", 10*time.Second,
		"after which another replica computes in the place of one that died, 10s to 24h")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *name == "" {
		*name = *listen
	}
	backend, err := memcached.New(memcached.Options{Servers: strings.Split(*servers, ",")})
	if err != nil {
		return err
	}
	defer backend.Close()
	locker, err := locking.New(backend,
		locking.Options{Namespace: "display", Lease: *lease, Log: log})
	if err != nil {
		return err
	}
	lists, err := locking.NewMemo(locker, locking.Owner{Replica: *name, Job: "lists"})
	if err != nil {
		return err
	}
	r := &replica{name: *name, lists: lists, ttl: *ttl, source: *from, ready: backend.Ping,
		log: log}

	// The locks are renewed until the last request has been answered.
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var both errgroup.Group
	both.Go(func() error { return locker.Run(renewing) })
	both.Go(func() error {
		defer stop()
		return serve(ctx, *listen, r.routes())
	})
	return both.Wait()
}

// serve answers until ctx ends, and then a little longer those who wait.
func serve(ctx context.Context, listen string, routes http.Handler) error {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: routes, ReadHeaderTimeout: 5 * time.Second}
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
