package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

const (
	bareRenewal = 5 * time.Second // the default time between heartbeats
	bareRead    = time.Second     // jobs are due every second
	bareTable   = "CREATE TABLE bare (process int PRIMARY KEY, renewed_at timestamptz)"
)

// startedAsBare reports whether this process is one that measureBare started as PROGRAM bare URL
// ADDRESS.
func startedAsBare(args []string) bool { return len(args) == 4 && args[1] == "bare" }

// bare is what this process does when measureBare started it: the least that a replica has to do
// when it starts nothing. It renews a row of PostgreSQL, reads a key of memcached, and listens for
// notifications, until it is interrupted.
func bare(url, memcached string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connect to listen: %w", err)
	}
	if _, err := listener.Exec(ctx, "LISTEN bare"); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	var dialer net.Dialer
	cache, err := dialer.DialContext(ctx, "tcp", memcached)
	if err != nil {
		return fmt.Errorf("connect to memcached: %w", err)
	}
	defer cache.Close()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	process, answers := os.Getpid(), bufio.NewReader(cache)
	if _, err := conn.Exec(ctx, "INSERT INTO bare VALUES ($1)", process); err != nil {
		return fmt.Errorf("add row: %w", err)
	}
	var all errgroup.Group
	all.Go(func() error {
		_, err := listener.WaitForNotification(ctx)
		return err
	})
	all.Go(func() error {
		return each(ctx, bareRenewal, func() error {
			_, err := conn.Exec(ctx, "UPDATE bare SET renewed_at = now() WHERE process = $1",
				process)
			return err
		})
	})
	all.Go(func() error {
		return each(ctx, bareRead, func() error {
			if _, err := cache.Write([]byte("get mark\r\n")); err != nil {
				return err
			}
			_, err := answers.ReadString('\n')
			return err
		})
	})
	if err := all.Wait(); ctx.Err() == nil {
		return err
	}
	return nil
}

// each calls do after each interval, until ctx ends.
func each(ctx context.Context, interval time.Duration, do func() error) error {
	for ticker := time.NewTicker(interval); ; {
		select {
		case <-ticker.C:
			if err := do(); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// measureBare measures the processor time of bare processes, and prints it.
func measureBare(ctx context.Context, o options, out io.Writer) (err error) {
	s, err := startServers(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	const database = "bare"
	if err := s.postgres.CreateDatabase(ctx, database, "template0"); err != nil {
		return err
	}
	db, err := pgx.Connect(ctx, s.postgres.URL(database))
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	defer db.Close(context.WithoutCancel(ctx)) //nolint:errcheck // all was read
	if _, err := db.Exec(ctx, bareTable); err != nil {
		return fmt.Errorf("table: %w", err)
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("path of this program: %w", err)
	}
	running, stop := context.WithCancel(ctx)
	all, running := errgroup.WithContext(running)
	defer func() { stop(); err = errors.Join(all.Wait(), err) }()
	source := counterSource{db: db, memcached: s.memcached.Addr()}
	for range o.replicas {
		process := exec.CommandContext(running, program, "bare", s.postgres.URL(database),
			s.memcached.Addr())
		process.Stderr = os.Stderr
		process.Cancel = func() error { return process.Process.Signal(os.Interrupt) }
		process.WaitDelay = stopLimit
		if err := process.Start(); err != nil {
			return fmt.Errorf("start a process: %w", err)
		}
		source.replicas = append(source.replicas, process.Process.Pid)
		all.Go(func() error {
			if err := process.Wait(); err != nil && running.Err() == nil {
				return fmt.Errorf("a process ended: %w", err)
			}
			return nil
		})
	}
	for rows := 0; rows < o.replicas; {
		if err := sleepUntil(running, time.Now().Add(100*time.Millisecond)); err != nil {
			return err
		}
		if err := db.QueryRow(ctx, "SELECT count(*) FROM bare").Scan(&rows); err != nil {
			return fmt.Errorf("rows of the processes: %w", err)
		}
	}
	from := time.Now().Add(o.warmUp)
	before, err := source.readAt(running, from)
	if err != nil {
		return err
	}
	after, err := source.readAt(running, from.Add(time.Duration(o.seconds)*time.Second))
	if err != nil {
		return err
	}
	used := after.since(before)
	_, err = fmt.Fprintf(out, `%d processes that only renew a row, read a key and listen:
processor time of the processes %.1f ms/s, of PostgreSQL %.1f ms/s, of memcached %.1f ms/s
`, o.replicas, perSecond(used.replicas, o), perSecond(used.postgres, o),
		perSecond(used.memcached, o))
	return err
}

// perSecond returns the milliseconds in each measured second.
func perSecond(d time.Duration, o options) float64 {
	return float64(d.Microseconds()) / 1000 / float64(o.seconds)
}
