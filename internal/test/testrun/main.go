package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

const (
	bindCommand = "-bind" // testrun -bind PROGRAM ARGS: the program, which dies with its parent
	spinCommand = "-spin" // testrun -spin: a loop that keeps one processor busy
)

// sharedConnections is the number of connections that all packages together may use on the shared
// server.
const sharedConnections = "max_connections=500"

// interrupted is the exit code after a signal, the same as that of a shell for SIGINT.
const interrupted = 130

func main() {
	if len(os.Args) > 2 && os.Args[1] == bindCommand {
		fmt.Fprintln(os.Stderr, bind(os.Args[2:]))
		os.Exit(1)
	}
	if len(os.Args) == 2 && os.Args[1] == spinCommand {
		spin()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM,
		syscall.SIGHUP)
	code, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// spin keeps one processor busy until it is killed.
func spin() {
	for n := uint64(0); ; n++ {
		if n == 0 {
			continue
		}
	}
}

// options are testrun's own arguments.
type options struct {
	runs int // of go test, one after the other
	busy int // number of loops that keep processors busy meanwhile
	args []string
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("testrun", flag.ContinueOnError)
	flags.IntVar(&o.runs, "runs", 1, "how often to run the tests")
	flags.IntVar(&o.busy, "busy", 0, "how many loops keep a processor busy meanwhile")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if o.runs < 1 || o.busy < 0 {
		return options{}, errors.New("-runs must be at least 1, and -busy at least 0")
	}
	o.args = flags.Args()
	return o, nil
}

// run returns the exit code of the last go test that failed, or 0.
func run(ctx context.Context, args []string) (code int, err error) {
	o, err := parse(args)
	if err != nil {
		return 2, err
	}
	if err := adoptOrphans(); err != nil {
		return 1, err
	}
	loops, err := startLoops(o.busy)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, loops.stop()) }()
	failed := 0
	for n := range o.runs {
		one, err := runOnce(ctx, o.args, loops)
		if ctx.Err() != nil {
			return interrupted, errors.Join(errors.New("interrupted"), err)
		}
		if err != nil {
			return max(one, 1), err
		}
		if one != 0 {
			code = one
			failed++
		}
		if o.runs > 1 {
			fmt.Printf("run %d of %d ended with exit code %d; %d failed so far\n", n+1, o.runs, one,
				failed)
		}
	}
	return code, nil
}

// runOnce runs go test beside a PostgreSQL server in a folder of its own.
func runOnce(ctx context.Context, args []string, loops loops) (code int, err error) {
	began := time.Now()
	folder, err := newFolder(parentFolder())
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, folder.remove()) }()
	server, err := servertest.StartShared(ctx, folder.path, sharedConnections)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	r := newReport(os.Stdout)
	own := append(loops.pids(), server.PID())
	env := append(folder.environment(), server.Environment()...)
	code, err = goTest(ctx, args, env, own, r)
	if again := r.again(args); code != 0 && err == nil && again != nil && ctx.Err() == nil {
		fmt.Printf("the race detector failed, and no test did: %s; running again\n",
			strings.Join(r.crashed, " "))
		r.crashed = nil
		code, err = goTest(ctx, again, env, own, r)
	}
	left, leftErr := endDescendants(own)
	if err = errors.Join(err, leftErr); ctx.Err() != nil {
		return interrupted, err
	}
	r.summary(time.Since(began))
	for _, process := range left {
		fmt.Printf("a test left a process behind: %s\n", process)
		code = max(code, 1)
	}
	return code, err
}
