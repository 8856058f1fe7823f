// Paths is a cloud file server: several nodes serve the requests of many
// customers, each of whom has a tree of folders. A request locks the paths that
// it changes: moving /shared/marketing/Dallas stops any change in it, beneath it,
// and to /shared/marketing and /shared themselves; its siblings go on. Names are
// the same whatever their case, as on the file servers of most offices.
//
// It measures how many requests the nodes serve, and of each move it writes
// down what it changed and when, so that it can be seen whether two changes of
// related paths ever overlapped.
//
//	go run ./examples/paths
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
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/fleet"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	var err error
	if fleet.Joining() {
		err = serve(ctx, os.Args[1:])
	} else {
		err = run(ctx, os.Args[1:], os.Stdout)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "paths:", err)
		os.Exit(1)
	}
}

// options say how much is asked of the nodes.
type options struct {
	nodes     int
	customers int
	rate      float64 // requests a second of each customer
	duration  time.Duration
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("paths", flag.ContinueOnError)
	flags.IntVar(&o.nodes, "nodes", 3, "how many nodes")
	flags.IntVar(&o.customers, "customers", 1000, "how many customers")
	flags.Float64Var(&o.rate, "rate", 10, "requests a second of each customer")
	flags.DurationVar(&o.duration, "duration", 20*time.Second, "how long")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.nodes < 1 || o.customers < 1 || o.rate <= 0 || o.duration < time.Second {
		return errors.New("expected a node, a customer, a rate and a second at least")
	}
	f, err := fleet.New(ctx)
	if err != nil {
		return err
	}
	defer f.Stop()
	r, err := measure(ctx, f, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d nodes, %d customers, %.0f requests a second asked for\n", o.nodes,
		o.customers, float64(o.customers)*o.rate)
	fmt.Fprintf(out, "served %.0f/s, lock held by another %.1f/s, not begun in time %.1f/s\n",
		r.served, r.timedOut, r.shed)
	fmt.Fprintf(out, "lock and release of a request: p50 %s, p99 %s\n", r.p50, r.p99)
	fmt.Fprintf(out, "changes of related paths that overlapped: %d\n", r.overlaps)
	if r.overlaps > 0 {
		return errors.New("changes overlapped")
	}
	return nil
}
