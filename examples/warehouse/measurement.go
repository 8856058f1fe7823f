package main

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// measurement is what both phases measured.
type measurement struct{ without, with result }

// measure starts the servers and runs both phases, one after the other.
func measure(ctx context.Context, o options, out io.Writer) (_ measurement, err error) {
	var m measurement
	load, err := findPgbench()
	if err != nil {
		return m, err
	}
	fmt.Fprintf(out,
		`PostgreSQL and memcached start on free loopback ports. deadlock_timeout is %s instead of
1s: deadlocks are found sooner, there are not more of them. pgbench has scale %d, %d clients
and %d transactions a second.
`, deadlockTimeout, o.scale, o.clients, transactionRate)
	s, err := startServers(ctx)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	f := field{servers: s, options: o, load: load, out: out}
	m.without, err = f.run(ctx, phase{name: "Without locks", database: "without_locks",
		table: withoutLocks(cronTable), lasts: o.without})
	if err != nil {
		return m, fmt.Errorf("without locks: %w", err)
	}
	m.with, err = f.run(ctx, phase{name: "With locks", database: "with_locks", table: cronTable,
		lasts: o.with})
	if err != nil {
		return m, fmt.Errorf("with locks: %w", err)
	}
	return m, nil
}

// check returns nil when the measurement shows what it is to show, else
// everything that speaks against it.
func (m measurement) check() error {
	var problems []error
	say := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf(format, args...))
	}
	if n := m.without.after.deadlocks - m.without.before.deadlocks; n == 0 {
		say("without locks there was no deadlock: nothing is shown")
	}
	if n := m.with.after.deadlocks - m.with.before.deadlocks; n != 0 {
		say("with locks there were %d deadlocks, expected none", n)
	}
	if n := m.with.after.of(serializationFailure) - m.with.before.of(serializationFailure); n != 0 {
		say("with locks there were %d serialization failures, expected none", n)
	}
	if !m.with.settled {
		say("with locks: %w", errNotSettled)
	}
	for _, t := range m.with.totals {
		if !t.equal() {
			say("with locks %s is not what a single pass gives: %d of %d rows differ", t.name,
				t.differing, t.rows)
		}
	}
	if n := m.with.audits.differing; n != 0 {
		say("with locks %d of %d audits saw tables that differ", n, m.with.audits.made)
	}
	return errors.Join(problems...)
}
