package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/jobs"
)

// TestMain runs the program instead of the tests if the harness has started the binary as a
// replica.
func TestMain(m *testing.M) {
	if startedAsReplica(os.Args) {
		runReplica()
		return
	}
	os.Exit(m.Run())
}

// The test runs a short version of the program with the program's own code.
func TestLocksPreventDeadlocksAndWrongTotals(t *testing.T) {
	if testing.Short() {
		t.Skip("starts PostgreSQL, memcached, pgbench and three replicas")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := options{without: soak.Pick(8*time.Second, 20*time.Second),
		with: soak.Pick(4*time.Second, 20*time.Second), scale: 2, clients: 4, program: program}
	m, err := measure(t.Context(), o, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.print(t.Output()); err != nil {
		t.Error(err)
	}
	if err := m.check(); err != nil {
		t.Error(err)
	}
	checkWithout(t, m.without)
	checkWith(t, m.with)
}

func checkWithout(t *testing.T, r result) {
	t.Helper()
	if r.after.deadlocks+r.after.of(serializationFailure) == 0 {
		t.Error("without locks: neither a deadlock nor a serialization failure")
	}
	if n := r.outcomes[outcome{jobs.Failed, "deadlock"}]; int64(n) != r.victims("holdfast") ||
		r.victims("pgbench") != 0 {
		t.Errorf("without locks: %d runs failed by deadlock, the server's log has %d victims "+
			"among the replicas and %d among pgbench, the statistics have %d; its errors:\n%s",
			n, r.victims("holdfast"), r.victims("pgbench"), r.after.deadlocks,
			strings.Join(r.after.lines, "\n"))
	}
}

func checkWith(t *testing.T, r result) {
	t.Helper()
	if r.after.deadlocks != 0 || r.after.of(deadlockDetected) != 0 {
		t.Errorf("with locks: %d deadlocks by the statistics, %d by the log", r.after.deadlocks,
			r.after.of(deadlockDetected))
	}
	if n := r.after.of(serializationFailure); n != 0 {
		t.Errorf("with locks: %d serialization failures", n)
	}
	for o, n := range r.outcomes {
		if o.state == jobs.Failed || o.state == jobs.Lost {
			t.Errorf("with locks: %d runs %s", n, o)
		}
	}
	if r.outcomes[outcome{state: jobs.Succeeded}] < len(r.totals) {
		t.Errorf("with locks: only %d runs succeeded", r.outcomes[outcome{state: jobs.Succeeded}])
	}
	if r.transactions == 0 || len(r.totals) != len(comparisons(0)) {
		t.Errorf("with locks: %d totals over %d transactions", len(r.totals), r.transactions)
	}
	for _, total := range r.totals {
		if !total.equal() || total.rows == 0 || total.written != total.single {
			t.Errorf("with locks: %+v", total)
		}
	}
	if r.audits.made == 0 || r.audits.differing != 0 {
		t.Errorf("with locks: %d of %d audits saw the totals disagree", r.audits.differing,
			r.audits.made)
	}
}
