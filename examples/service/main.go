package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
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
	listen := flags.String("listen", "127.0.0.1:8000", "`address` of the service")
	if err := flags.Parse(args); err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close() // after Serve, which ends after all jobs
	s, err := newService(options{
		pool: pool, memcached: strings.FieldsFunc(os.Getenv("MEMCACHED"), isComma),
		password: os.Getenv("SERVICE_PASSWORD"), log: slog.Default(),
		registerer: prometheus.DefaultRegisterer,
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	if err := s.open(ctx); err != nil {
		return errors.Join(err, listener.Close())
	}
	return s.serve(ctx, listener)
}

func isComma(c rune) bool { return c == ',' }
