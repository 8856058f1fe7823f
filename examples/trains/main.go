// Trains is a message-driven system. A message says that a train was created at a location, moved
// to another, or deleted. Several workers in several processes take the messages.
//
// A worker locks the train of its message and the one or two locations. It tries every 10 ms, at
// most 10 times, for at most 2 minutes. Without the locks it returns the message. The message is
// then retried up to 3 times before a longer pause. When the worker saves its changes, it checks
// that no other worker has changed the rows that it read.
//
// One process is killed in the middle. At the end each location's counts of
// trains created, arrived, departed and deleted must be what a single pass over
// the messages gives.
//
//	go run ./examples/trains
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
		err = work(ctx, os.Args[1:])
	} else {
		err = run(ctx, os.Args[1:], os.Stdout)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "trains:", err)
		os.Exit(1)
	}
}

// options say how much traffic there is and who works on it.
type options struct {
	trains    int
	locations int
	moves     int // of each train
	processes int
	workers   int // of each process
	seed      uint64
}

// run works through the messages, and returns an error when the counts are
// not what a single pass gives.
func run(ctx context.Context, args []string, out io.Writer) error {
	o := options{}
	flags := flag.NewFlagSet("trains", flag.ContinueOnError)
	flags.IntVar(&o.trains, "trains", 200, "how many trains")
	flags.IntVar(&o.locations, "locations", 12, "how many locations")
	flags.IntVar(&o.moves, "moves", 10, "how often each train moves")
	flags.IntVar(&o.processes, "processes", 3, "how many processes")
	flags.IntVar(&o.workers, "workers", 4, "how many workers in each process")
	flags.Uint64Var(&o.seed, "seed", 1, "of the traffic")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.trains < 1 || o.locations < 2 || o.moves < 0 || o.processes < 2 || o.workers < 1 {
		return errors.New("expected a train, two locations, two processes and a worker at least")
	}
	d, err := newDepot(ctx, o)
	if err != nil {
		return err
	}
	defer d.close()
	r, err := d.process(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d messages in %s by %d processes with %d workers each, one of them killed "+
		"midway\n",
		r.messages, r.took.Round(time.Millisecond), o.processes, o.workers)
	fmt.Fprintf(out, "locks refused after 10 tries: %d; messages left alone for a while: %d; "+
		"changed meanwhile: %d; out of order: %d\n",
		r.refused, r.postponed, r.changed, r.early)
	return r.check(out)
}
