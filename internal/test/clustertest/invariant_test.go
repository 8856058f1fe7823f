package clustertest

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/soak"
)

// runForVariable names the number of seconds for which clusters run in TestInvariantsOfACluster and
// TestSimulationWithProcesses.
const runForVariable = "HOLDFAST_CLUSTER_SECONDS"

// contendingJobs is a cron table of 30 jobs that fire every second and share 12 tables. Some jobs
// name the tables in opposite orders. A third of them use the stock sql handler, which records the
// end of a run in the transaction of its work. Half of those may share transactions.
func contendingJobs() (table string, names []string) {
	var b strings.Builder
	for i := range 30 {
		name := fmt.Sprintf("job-%02d", i)
		names = append(names, name)
		first, second := fmt.Sprintf("t%d", i%12), fmt.Sprintf("t%d", (i*5+1)%12)
		keys := "schedule: {every: 1s}, misfire: " + []string{"skip", "run_once", "run_all"}[i%3]
		if i%4 == 0 {
			keys += ", recover: true"
		}
		if i%5 == 0 {
			keys += ", overlap: queue"
		}
		tables := first
		if second != first {
			tables += ", " + second
		}
		if i%3 == 2 {
			b.WriteString(contendingSQL(name, tables, keys, i%2 == 0))
			continue
		}
		b.WriteString(ledgerJob(name, tables, keys, fmt.Sprintf("takes: %dms", 10+(i*37)%150)))
	}
	return b.String(), names
}

func contendingSQL(name, tables, keys string, share bool) string {
	step := func(step string) string {
		return fmt.Sprintf("INSERT INTO ledger (step, resource, job, scheduled_at, run, token) "+
			"SELECT '%s', unnest(string_to_array('%s', ', ')), "+
			"r.job, r.scheduled_at, r.id, r.token FROM holdfast.runs r WHERE r.job = '%s' AND "+
			"r.state = 'running'", step, tables, name)
	}
	return fmt.Sprintf("  - {name: %s, handler: sql, tables: [%s], %s, params: {statements: [%q, "+
		"%q, %q], share_transaction: %t}}\n",
		name, tables, keys, step("begin"), "SELECT pg_sleep(0.02)", step("end"), share)
}

// Three replicas fire 30 conflicting jobs every second and one of them is killed. Then the test
// compares the ledger with the history.
func TestInvariantsOfACluster(t *testing.T) {
	table, names := contendingJobs()
	c := newCluster(t, settings{misfire: "3s", jobs: table, wait: "{attempts: 20, delay: 50ms, " +
		"max_delay: 200ms, backoff: exponential, jitter: 0.5}"})
	c.start("a", "b", "c")
	from := askOne[time.Time](c,
		`SELECT date_trunc('second', clock_timestamp()) + interval '1 second'`)
	length := lengthOfRun(t, 6*time.Second)
	until := from.Add(length)

	const reached = `SELECT clock_timestamp() >= $1`
	c.awaitValue("the middle of the time", reached, from.Add(length/2))
	// The kill comes while all replicas work.
	c.awaitValue("a run on replica b",
		`SELECT EXISTS (SELECT FROM holdfast.runs WHERE replica = 'b' AND state = 'running')`)
	killing := askOne[time.Time](c, `SELECT clock_timestamp()`)
	if err := c.replicas["b"].Kill(); err != nil {
		t.Fatal(err)
	}
	c.awaitValue("the end of the time", reached, until)
	c.settle(until, names...)

	states := map[string]int{}
	for _, name := range names {
		for state, n := range c.expectEachOnce(name, from, until) {
			states[state] += n
		}
	}
	c.expectOnlyItsOwnLost("b", killing)
	c.audit()
	for _, state := range slices.Sorted(maps.Keys(states)) {
		t.Logf("%s: %d of %d firings", state, states[state], len(names)*(int(length/time.Second)+1))
	}
	if states["succeeded"] == 0 || states["skipped"] == 0 {
		t.Errorf("outcomes %v: without successes and skips this test shows nothing", states)
	}
	for _, p := range []string{"a", "c"} {
		if n := askOne[int](c,
			`SELECT count(*) FROM holdfast.runs WHERE replica = $1 AND state = 'succeeded'`,
			p); n == 0 {
			t.Errorf("replica %s ran nothing", p)
		}
	}
}

// lengthOfRun returns short, or a minute in a soak.
func lengthOfRun(t *testing.T, short time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(runForVariable)
	if text == "" {
		return soak.Pick(short, time.Minute)
	}
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds < 4 || seconds > 120 {
		t.Fatalf("%s: want 4 to 120 seconds, got %q", runForVariable, text)
	}
	return time.Duration(seconds) * time.Second
}

// expectOnlyItsOwnLost fails the test unless all lost runs belong to the killed replica. The store
// may still grant a start that was on its way at the kill, as long as the session is live.
func (c *cluster) expectOnlyItsOwnLost(replica string, killing time.Time) {
	c.t.Helper()
	lost, err := ask[run](c.ctx, c, selectRuns+"WHERE state = 'lost' ORDER BY token")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, r := range lost {
		expires := askOne[time.Time](c,
			`SELECT s.expires_at FROM holdfast.runs r JOIN holdfast.sessions s ON s.id = r.session WHERE r.id = $1`, r.ID)
		if r.Replica != replica || !r.StartedAt.Before(expires) {
			c.t.Errorf("run %s of %s on %s, started %s, is lost (%s): want only those that "+
				"%s ran when it was killed at %s",
				r.ID, r.Job, r.Replica, r.StartedAt, r.Reason, replica, killing)
		}
	}
	c.t.Logf("lost with replica %s: %d runs", replica, len(lost))
}
