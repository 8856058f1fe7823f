package clustertest

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// numbers returns the sums of the metrics of all replicas.
func (c *cluster) numbers(ctx context.Context) map[string]float64 {
	c.t.Helper()
	sums := map[string]float64{}
	for _, p := range c.replicas {
		for line := range strings.Lines(fetch(ctx, c.t, p.URL+"/metrics")) {
			name, value, found := strings.Cut(strings.TrimSpace(line), " ")
			if !found || !strings.HasPrefix(name, "holdfast_") {
				continue
			}
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				c.t.Fatalf("%q: %v", line, err)
			}
			sums[name] += number
		}
	}
	return sums
}

// counted returns the numbers of runs by job and state from the metrics.
func counted(numbers map[string]float64) map[string]float64 {
	runs := maps.Clone(numbers)
	maps.DeleteFunc(runs, func(name string, value float64) bool {
		return !strings.HasPrefix(name, "holdfast_runs_total{") || value == 0
	})
	return runs
}

// recorded returns the numbers of runs by job and state from the history.
func (c *cluster) recorded() map[string]float64 {
	runs := map[string]float64{}
	rows, err := ask[struct {
		Job, State string
		Count      int
	}](c.ctx, c, `SELECT job, state, count(*) FROM holdfast.runs WHERE state NOT IN ('waiting', 'running') GROUP BY job, state`)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, r := range rows {
		runs[fmt.Sprintf("holdfast_runs_total{job=%q,state=%q}", r.Job, r.State)] = float64(r.Count)
	}
	return runs
}

// The metrics of all replicas together count each run in the store once. They also count the
// restart of memcached and the death of a replica.
func TestMetricsMatchHistory(t *testing.T) {
	t.Parallel()
	c := newCluster(t, settings{stock: true, memcached: ", watch_every: 100ms",
		jobs: firesEverySecond + `
  - {name: waiter, schedule: {every: 1s}, handler: sql, tables: [ledger, others], params: {statement: SELECT pg_sleep(0.3)}, wait: {attempts: 1}}
  - {name: hold, handler: command, tables: [held], params: {command: [sleep, "600"]}}
`})
	c.start("a", "b")
	c.trigger("hold")
	held := c.awaitRun("job = 'hold' AND state = 'running'")
	if err := c.memcached.Restart(c.ctx); err != nil {
		t.Fatal(err)
	}
	c.await("both saw the restart, and the run's entry is back",
		func(ctx context.Context) (bool, error) {
			n := c.numbers(ctx)
			return n[`holdfast_memcached_restarts_total{server="`+c.memcached.Addr()+`"}`] == 2 &&
				n[`holdfast_advisory_locks_restored_total{resource="public/held"}`] == 1, nil
		})
	c.awaitRun("job = 'waiter' AND state = 'succeeded'")
	c.awaitRun("state = 'skipped'")
	// Without a pause, runs would end while the test asks one replica after another.
	var pause storage.Pause
	c.action(c.replicas["a"], &pause, "/api/v1/pause", `{}`)
	c.await("counted is what is recorded", func(ctx context.Context) (bool, error) {
		runs, recorded := counted(c.numbers(ctx)), c.recorded()
		if !maps.Equal(runs, recorded) {
			return false, fmt.Errorf("counted are %v, recorded %v", runs, recorded)
		}
		return true, nil
	})
	// A run is recorded as succeeded before its advisory locks are removed.
	for _, name := range []string{
		`holdfast_memcached_duration_seconds_count{operation="add_all"}`,
		`holdfast_memcached_duration_seconds_count{operation="delete_all"}`,
		`holdfast_store_duration_seconds_count{operation="start"}`,
		`holdfast_store_duration_seconds_count{operation="heartbeat"}`,
		`holdfast_lock_hold_seconds_count{resource="public/ledger"}`,
		`holdfast_starts_total{outcome="granted"}`,
	} {
		c.await(name+" is counted", func(ctx context.Context) (bool, error) {
			return c.numbers(ctx)[name] > 0, nil
		})
	}
	dead := c.replicas[held.Replica]
	if err := dead.Kill(); err != nil {
		t.Fatal(err)
	}
	delete(c.replicas, held.Replica)
	c.await("the other tells of the death", func(ctx context.Context) (bool, error) {
		n := c.numbers(ctx)
		return n["holdfast_swept_sessions_total"] == 1 &&
			n[`holdfast_lost_runs_total{job="hold",reason="session_lost"}`] == 1 &&
			n["holdfast_ready"] == 1, nil
	})
	c.audit()
}
