package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/cli"
	"github.com/holdfast-dev/holdfast/internal/test/replicas"
	"github.com/holdfast-dev/holdfast/jobs"
)

const (
	readyLimit = 2 * time.Minute
	// startedTogether is how many replicas may start at the same time. If 48 started together, most
	// of them would lose their first sessions before they have registered their jobs.
	startedTogether = 6
	stopLimit       = time.Minute // more than the replicas' own grace

	// profileVariable names the file for a replica's processor profile.
	profileVariable = "BENCH_PROFILE"
	// holdVariable is how long the handler no-op takes; "" for no time.
	holdVariable = "BENCH_HOLD"
)

// startedAsReplica reports whether this process is one that the program
// started as PROGRAM run -c CONFIG.
func startedAsReplica(args []string) bool { return len(args) > 1 && args[1] == "run" }

// replica is what this process does when it was started as a replica.
func replica() {
	hold, err := time.ParseDuration(cmp.Or(os.Getenv(holdVariable), "0s"))
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %s: %v\n", holdVariable, err)
		os.Exit(1)
	}
	noOp := jobs.Handle("no-op", func(ctx context.Context, _ *jobs.Run, _ struct{}) error {
		if hold <= 0 {
			return nil // a timer would be most of what the handler costs
		}
		return sleepUntil(ctx, time.Now().Add(hold))
	})
	path := os.Getenv(profileVariable)
	if path == "" {
		cli.Main(holdfast.WithHandlers(noOp))
		return
	}
	file, err := os.Create(path)
	if err == nil {
		err = pprof.StartCPUProfile(file)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: processor profile:", err)
		os.Exit(1)
	}
	cli.Main(holdfast.WithHandlers(noOp))
	pprof.StopCPUProfile()
	if err := file.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "bench: processor profile:", err)
		os.Exit(1)
	}
}

// holdfastBy returns the scheduler Holdfast, whose replicas are processes of program.
func holdfastBy(program string) scheduler {
	return scheduler{name: "holdfast", pairs: runsAndRows,
		start: func(ctx context.Context, l load, dir string) (nodes, error) {
			return startCluster(ctx, l, dir, program)
		},
		ended: "SELECT count(*) FROM holdfast.runs WHERE scheduled_at >= $1 AND " +
			"scheduled_at < $2 AND finished_at IS NOT NULL"}
}

// cluster is the replica processes of one load.
type cluster []*replicas.Process

// startCluster starts the replicas and returns when all can start runs.
func startCluster(ctx context.Context, l load, dir, program string) (cluster, error) {
	var c cluster
	bounded, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for i := range l.options.replicas {
		if i >= startedTogether {
			if err := c[i-startedTogether].Ready(bounded); err != nil {
				return nil, errors.Join(err, c.kill())
			}
		}
		name := "replica-" + strconv.Itoa(i+1)
		process, err := replicas.Start(ctx, replicas.Spec{
			Program: program, Name: name, Config: configuration(l.options, l.jobs), Dir: dir,
			Env: l.environment(name),
		})
		if err != nil {
			return nil, errors.Join(err, c.kill())
		}
		c = append(c, process)
	}
	for _, process := range c {
		if err := process.Ready(bounded); err != nil {
			return nil, errors.Join(err, c.kill())
		}
	}
	return c, nil
}

func (l load) environment(replica string) []string {
	env := []string{"DATABASE_URL=" + l.servers.postgres.URL(l.database()),
		"MEMCACHED=" + l.servers.memcached.Addr()}
	if l.options.profile != "" {
		env = append(env, profileVariable+"="+filepath.Join(l.options.profile,
			fmt.Sprintf("load-%d-%s.pprof", l.number, replica)))
	}
	if l.options.tables > 0 {
		env = append(env, holdVariable+"="+l.options.hold.String())
	}
	return env
}

func (c cluster) pids() []int {
	pids := make([]int, len(c))
	for i, process := range c {
		pids[i] = process.PID()
	}
	return pids
}

// stop implements nodes.
func (c cluster) stop(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	var all errgroup.Group
	for _, process := range c {
		all.Go(func() error {
			if err := process.Stop(bounded); err != nil {
				return fmt.Errorf("replica %s ended badly: %w\n%s", process.Name, err,
					process.Tail(2000))
			}
			return nil
		})
	}
	return all.Wait()
}

// kill implements nodes.
func (c cluster) kill() error {
	var problems []error
	for _, process := range c {
		problems = append(problems, process.Kill())
	}
	return errors.Join(problems...)
}
