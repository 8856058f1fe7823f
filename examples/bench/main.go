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

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

func main() {
	if startedAsReplica(os.Args) {
		replica()
		return
	}
	if startedAsBare(os.Args) {
		if err := bare(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, "bench: bare process:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures each load, prints what it found, and returns an error when a
// firing ran twice or tables and history disagree.
func run(ctx context.Context, args []string, out, errOut io.Writer) error {
	o, err := parseOptions(args, errOut)
	if err != nil {
		return err
	}
	if o.bare {
		return measureBare(ctx, o, out)
	}
	results, err := measureAll(ctx, o, out)
	if err != nil {
		return err
	}
	if err := printResults(out, o, results); err != nil {
		return err
	}
	var problems []error
	for _, r := range results {
		problems = append(problems, r.check())
	}
	return errors.Join(problems...)
}

// measureAll starts the servers and measures one load after the other.
func measureAll(ctx context.Context, o options, out io.Writer) (_ []result, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("path of this program: %w", err)
	}
	s, err := startServers(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	fmt.Fprintln(out, o.describe())
	var results []result
	schedulers := []scheduler{holdfastBy(program)}
	if o.river != "" {
		schedulers = append(schedulers, riverBy(o.river))
	}
	for i, n := range o.jobs {
		for _, measured := range schedulers {
			l := load{servers: s, options: o, scheduler: measured, number: i + 1, jobs: n, out: out}
			r, err := l.measure(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s, %d jobs: %w", measured.name, n, err)
			}
			results = append(results, r)
		}
	}
	return results, nil
}

// servers are what all loads share; each has a database of its own.
type servers struct {
	postgres  *servertest.Postgres
	memcached *servertest.Memcached
	dir       string // of the replicas' configurations and logs
}

func startServers(ctx context.Context, o options) (_ *servers, err error) {
	s := &servers{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	if s.dir, err = os.MkdirTemp("", "bench-"); err != nil {
		return nil, fmt.Errorf("temporary folder: %w", err)
	}
	if s.memcached, err = servertest.StartMemcached(ctx); err != nil {
		return nil, err
	}
	s.postgres, err = servertest.StartPostgres(ctx, "", o.settings()...)
	return s, err
}

func (s *servers) stop() error {
	var problems []error
	if s.postgres != nil {
		problems = append(problems, s.postgres.Stop())
	}
	if s.memcached != nil {
		problems = append(problems, s.memcached.Stop())
	}
	if s.dir != "" {
		problems = append(problems, os.RemoveAll(s.dir))
	}
	return errors.Join(problems...)
}
