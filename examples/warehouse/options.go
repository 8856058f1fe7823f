package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"
)

// options say how long and how much.
type options struct {
	without, with time.Duration // of the load, in each phase
	scale         int           // pgbench's: branches, each with 10 tellers and 100,000 accounts
	clients       int           // of pgbench
	program       string        // what is started as a replica
}

func parseOptions(args []string, errOut io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("warehouse", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.DurationVar(&o.without, "without", 20*time.Second, "how long to run without locks")
	flags.DurationVar(&o.with, "with", 40*time.Second, "how long to run with locks")
	flags.IntVar(&o.scale, "scale", 2, "pgbench's scale: `branches`, each with 100,000 accounts")
	flags.IntVar(&o.clients, "clients", 8, "pgbench's clients")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	return o, o.check(flags.Args())
}

func (o options) check(rest []string) error {
	var problems []error
	if len(rest) > 0 {
		problems = append(problems, fmt.Errorf("expected only flags, found %q", rest))
	}
	problems = append(problems, checkDuration("-without", o.without),
		checkDuration("-with", o.with))
	if o.scale < 1 {
		problems = append(problems, fmt.Errorf("-scale: expected at least 1, found %d", o.scale))
	}
	if o.clients < 1 || o.clients > 50 {
		problems = append(problems, fmt.Errorf("-clients: expected 1 to 50, found %d", o.clients))
	}
	return errors.Join(problems...)
}

// checkDuration refuses what pgbench can't be told.
func checkDuration(flag string, d time.Duration) error {
	if d < time.Second || d%time.Second != 0 {
		return fmt.Errorf("%s: expected whole seconds, at least 1s, found %s", flag, d)
	}
	return nil
}
