package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/admin"
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
	// othersVariable has the names of the process's other replicas, separated by spaces.
	othersVariable = "BENCH_OTHERS"
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
	if err := profiled(os.Getenv(profileVariable), func() error {
		return runReplicas(strings.Fields(os.Getenv(othersVariable)), holdfast.WithHandlers(noOp))
	}); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// profiled calls f and writes its processor profile to path, if path is not "".
func profiled(path string, f func() error) error {
	if path == "" {
		return f()
	}
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("processor profile: %w", err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return errors.Join(fmt.Errorf("processor profile: %w", err), file.Close())
	}
	err = f()
	pprof.StopCPUProfile()
	return errors.Join(err, file.Close())
}

// runReplicas runs the replica of the command line until a signal stops it, and the others beside
// it. The others have started before it is ready.
func runReplicas(others []string, handlers holdfast.Option) error {
	var started []*holdfast.Replica
	for _, name := range others {
		replica, err := holdfast.New(holdfast.WithConfigFile(os.Args[len(os.Args)-1]),
			holdfast.WithReplicaName(name), holdfast.WithPage(admin.Page, "127.0.0.1:0"), handlers)
		if err != nil {
			return fmt.Errorf("replica %s: %w", name, err)
		}
		started = append(started, replica)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	all, ctx := errgroup.WithContext(ctx)
	for i, replica := range started {
		all.Go(func() error {
			if err := replica.Run(ctx); err != nil {
				return fmt.Errorf("replica %s: %w", others[i], err)
			}
			return nil
		})
		if err := awaitReady(ctx, replica); err != nil {
			stop()
			return errors.Join(fmt.Errorf("replica %s: %w", others[i], err), all.Wait())
		}
	}
	cli.Main(handlers)
	stop()
	return all.Wait()
}

// awaitReady waits until the replica can start runs.
func awaitReady(ctx context.Context, replica *holdfast.Replica) error {
	bounded, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for {
		err := replica.Ready(bounded)
		if err == nil {
			return nil
		}
		if sleepUntil(bounded, time.Now().Add(20*time.Millisecond)) != nil {
			return errors.Join(err, context.Cause(bounded))
		}
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
	for i, names := range l.options.divide() {
		if i >= startedTogether {
			if err := c[i-startedTogether].Ready(bounded); err != nil {
				return nil, errors.Join(err, c.kill())
			}
		}
		process, err := replicas.Start(ctx, replicas.Spec{
			Program: program, Name: names[0], Config: configuration(l.options, l.jobs), Dir: dir,
			Env: l.environment(names),
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

// environment is that of a process with the given replicas.
func (l load) environment(replicas []string) []string {
	env := []string{"DATABASE_URL=" + l.servers.postgres.URL(l.database()),
		"MEMCACHED=" + l.servers.memcached.Addr(),
		othersVariable + "=" + strings.Join(replicas[1:], " ")}
	if l.options.profile != "" {
		env = append(env, profileVariable+"="+filepath.Join(l.options.profile,
			fmt.Sprintf("load-%d-%s.pprof", l.number, replicas[0])))
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
