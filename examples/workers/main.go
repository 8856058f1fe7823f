// Workers is five processes that take one lock in turn, first by waiting for
// it, then by asking again and again without waiting, and then three at a time
// through a semaphore. At the end one that is inside is killed, and its slot is
// free once its session has expired.
//
// Each worker writes down in PostgreSQL when it came in and when it went out;
// how many were inside at a time is read from there, not from what they say.
//
//	go run ./examples/workers
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
		fmt.Fprintln(os.Stderr, "workers:", err)
		os.Exit(1)
	}
}

// run shows all four parts and prints what was seen.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("workers", flag.ContinueOnError)
	workers := flags.Int("workers", 5, "how many processes")
	turns := flags.Int("turns", 20, "how often each comes in, in each part")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, err := newShow(ctx, *workers, *turns)
	if err != nil {
		return err
	}
	defer s.close()
	for _, part := range []string{blocking, nonBlocking, semaphore} {
		seen, err := s.play(ctx, part)
		if err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
		fmt.Fprintln(out, seen)
		if err := seen.check(); err != nil {
			return err
		}
	}
	freed, err := s.killOneInside(ctx)
	if err != nil {
		return fmt.Errorf("kill: %w", err)
	}
	fmt.Fprintf(out, "killed: its slot was taken by another %s later; sessions expire after %s\n",
		freed.Round(10e6), sessionTTL)
	return nil
}
