// Program river is one node of a cluster of River (https://riverqueue.com), which the program bench
// starts beside its own replicas: J periodic jobs are due at each full second and do nothing.
//
//	river -url URL -migrate
//	river -url URL -jobs 1000 -workers 200 -connections 20
//
// Everything else is River's default. The node runs until SIGTERM.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const stopLimit = 30 * time.Second

type options struct {
	url                        string
	migrate                    bool
	jobs, workers, connections int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	flag.StringVar(&o.url, "url", "", "`address` of the database")
	flag.BoolVar(&o.migrate, "migrate", false, "create the tables of River and end")
	flag.IntVar(&o.jobs, "jobs", 1000, "jobs every second")
	flag.IntVar(&o.workers, "workers", 100, "jobs at the same time")
	flag.IntVar(&o.connections, "connections", 20, "connections to PostgreSQL")
	flag.Parse()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	config, err := pgxpool.ParseConfig(o.url)
	if err != nil {
		return fmt.Errorf("address of the database: %w", err)
	}
	config.MaxConns = int32(o.connections) //nolint:gosec // a small number
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	defer pool.Close()
	if o.migrate {
		return migrate(ctx, pool)
	}
	return work(ctx, pool, o)
}

func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	return nil
}

// work runs a client until ctx ends.
func work(ctx context.Context, pool *pgxpool.Pool, o options) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, &noOp{})
	periodic := make([]*river.PeriodicJob, o.jobs)
	for i := range periodic {
		job := noOpArgs{Job: fmt.Sprintf("job_%04d", i)}
		periodic[i] = river.NewPeriodicJob(everySecond{},
			func() (river.JobArgs, *river.InsertOpts) { return job, nil }, nil)
	}
	log := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})
	client, err := river.NewClient[pgx.Tx](riverpgxv5.New(pool), &river.Config{
		Queues:       map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: o.workers}},
		Workers:      workers,
		PeriodicJobs: periodic,
		Logger:       slog.New(log),
	})
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	<-ctx.Done()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	if err := client.Stop(bounded); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}

// everySecond is due at each full second.
type everySecond struct{}

func (everySecond) Next(t time.Time) time.Time {
	return t.Truncate(time.Second).Add(time.Second)
}

type noOpArgs struct {
	Job string `json:"job"`
}

func (noOpArgs) Kind() string { return "no-op" }

type noOp struct{ river.WorkerDefaults[noOpArgs] }

func (*noOp) Work(context.Context, *river.Job[noOpArgs]) error { return nil }
