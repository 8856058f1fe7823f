package clustertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
)

// trialMinutes names the variable with the length of TestTrial. trialSeed names the variable that
// repeats an order of faults.
const (
	trialMinutes = "HOLDFAST_TRIAL_MINUTES"
	trialSeed    = "HOLDFAST_SEED"
)

// trialJobs is a cron table of 100 sql jobs that run every second. Each writes two rows and
// its completion in one transaction. Ten of them share three tables; the others have a table
// of their own. The last six take 0.7 s, so that some runs are lost when a replica is killed. Half
// of the jobs may share transactions.
func trialJobs() (table string, names []string) {
	var b strings.Builder
	for i := range 100 {
		name, resource := fmt.Sprintf("own-%02d", i), fmt.Sprintf("own_%02d", i)
		if i < 10 {
			name, resource = fmt.Sprintf("shared-%02d", i), fmt.Sprintf("shared_%d", i%3)
		}
		names = append(names, name)
		statement :=
			fmt.Sprintf("INSERT INTO ledger (step, resource, job, scheduled_at, run, token) "+
				"SELECT step, '%s', r.job, r.scheduled_at, r.id, r.token FROM holdfast.runs r, "+
				"(VALUES ('begin'), ('end')) v (step) WHERE r.job = '%s' AND r.state = 'running'",
				resource, name)
		if i >= 94 {
			statement = strings.Replace(statement, " v (step)", " v (step), pg_sleep(0.7)", 1)
		}
		fmt.Fprintf(&b, "  - {name: %s, handler: sql, tables: [%s], schedule: \"* * * * * *\", "+
			"misfire: %s, recover: %t, params: {statement: %q, share_transaction: %t}}\n",
			name, resource, []string{"skip", "run_once", "run_all"}[i%3], i%4 == 0, statement,
			i%2 == 0)
	}
	return b.String(), names
}

// trial is a cluster that suffers one fault after another.
type trial struct {
	*cluster
	postgres *servertest.Postgres
	random   *rand.Rand
}

// fault is a disturbance of one part of the cluster. It has ended when do returns.
type fault struct {
	name string
	do   func(ctx context.Context) error
}

// TestTrial kills, freezes and restarts replicas, memcached and PostgreSQL in random order
// under 100 firings a second. Then it compares the tables that the jobs wrote with the
// history: each scheduled time has one record, each success has its rows from the transaction
// that recorded it, and no two runs wrote to one table at the same time.
func TestTrial(t *testing.T) {
	soak.Only(t)
	length := trialLength(t)
	pg, url := ownPostgres(t)
	table, names := trialJobs()
	c := newCluster(t, settings{
		url: url, expires: "5s", misfire: "5s", jobs: table, limit: length + 10*time.Minute,
		wait: "{attempts: 10, delay: 50ms, max_delay: 200ms, backoff: exponential, jitter: 0.5}",
	})
	tr := &trial{cluster: c, postgres: pg, random: rand.New(rand.NewPCG(trialSeedOf(t), 0))}
	c.start("a", "b", "c", "d")
	from := askOne[time.Time](c,
		`SELECT date_trunc('second', clock_timestamp()) + interval '1 second'`)
	tr.suffer(length)
	c.db.Reset() // a crash may have ended its connections
	c.awaitValue("an answer", `SELECT true`)
	until := askOne[time.Time](c, `SELECT date_trunc('second', clock_timestamp())`)
	c.settle(until, names...)

	states := map[string]int{}
	for _, name := range names {
		for state, n := range c.expectEachOnce(name, from, until) {
			states[state] += n
		}
	}
	c.audit()
	tr.expectPairs()
	t.Logf("%d scheduled times: %v", len(names)*(int(until.Sub(from)/time.Second)+1), states)
	if states["succeeded"] == 0 || states["lost"] == 0 {
		t.Errorf("outcomes %v: without successes and losses this test shows nothing", states)
	}
}

// suffer applies each fault once in random order, and again until the time is over. Between
// two faults the cluster has a few seconds of calm.
func (tr *trial) suffer(length time.Duration) {
	tr.t.Helper()
	faults := tr.faults()
	end := time.Now().Add(length)
	for counts := map[string]int{}; ; {
		for _, i := range tr.random.Perm(len(faults)) {
			if time.Now().After(end) {
				tr.t.Logf("faults: %v", counts)
				return
			}
			tr.t.Logf("%s: %s", time.Now().UTC().Format(time.TimeOnly), faults[i].name)
			if err := faults[i].do(tr.ctx); err != nil {
				tr.t.Fatalf("%s: %v", faults[i].name, err)
			}
			counts[faults[i].name]++
			calm := time.Duration(2+tr.random.IntN(6)) * time.Second
			if err := pause(tr.ctx, calm); err != nil {
				tr.t.Fatal(err)
			}
		}
	}
}

func (tr *trial) faults() []fault {
	return []fault{
		{"a replica is killed", func(context.Context) error { return tr.again(tr.any(), syscall.SIGKILL) }},
		{"a replica is stopped", func(context.Context) error { return tr.again(tr.any(), syscall.SIGTERM) }},
		{"a replica is frozen for longer than its session", tr.freeze(tr.any, 8*time.Second)},
		{"a replica is frozen for a short time", tr.freeze(tr.any, 2*time.Second)},
		{"all replicas are killed", func(context.Context) error {
			for _, name := range []string{"a", "b", "c", "d"} {
				if err := tr.replicas[name].Kill(); err != nil {
					return err
				}
			}
			tr.start("a", "b", "c", "d")
			return nil
		}},
		{"memcached is flushed", func(context.Context) error { return tr.flush() }},
		{"memcached is restarted", func(ctx context.Context) error { return tr.memcached.Restart(ctx) }},
		{"memcached is down for a short time", func(ctx context.Context) error {
			return errors.Join(tr.memcached.Kill(), pause(ctx, 6*time.Second),
				tr.memcached.Start(ctx))
		}},
		{"memcached is frozen", func(ctx context.Context) error {
			return errors.Join(tr.memcached.Pause(), pause(ctx, 4*time.Second),
				tr.memcached.Resume())
		}},
		{"PostgreSQL crashes", func(ctx context.Context) error {
			return errors.Join(tr.postgres.Kill(), tr.postgres.Start(ctx))
		}},
		{"PostgreSQL is frozen for a short time", tr.freezePostgres(2 * time.Second)},
		{"PostgreSQL is frozen for longer than sessions", tr.freezePostgres(9 * time.Second)},
	}
}

func (tr *trial) any() string { return []string{"a", "b", "c", "d"}[tr.random.IntN(4)] }

// again ends a replica by the signal and starts it again.
func (tr *trial) again(name string, by syscall.Signal) error {
	p := tr.replicas[name]
	if err := p.Signal(by); err != nil {
		return err
	}
	ended := p.Wait(tr.ctx)
	if by == syscall.SIGTERM && ended != nil {
		return ended
	}
	tr.start(name)
	return nil
}

func (tr *trial) freeze(which func() string, length time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		p := tr.replicas[which()]
		return errors.Join(p.Signal(syscall.SIGSTOP), pause(ctx, length), p.Signal(syscall.SIGCONT))
	}
}

func (tr *trial) freezePostgres(length time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		return errors.Join(tr.postgres.Pause(), pause(ctx, length), tr.postgres.Resume())
	}
}

// expectPairs fails the test unless the rows of each success were written by the transaction
// that recorded it, and all rows belong to a success.
func (tr *trial) expectPairs() {
	tr.t.Helper()
	type pair struct{ Text string }
	broken, err := ask[pair](tr.ctx, tr.cluster, `
SELECT format('run %s of %s at %s is %s (transaction %s), rows of transaction %s',
    coalesce(r.id, l.run), coalesce(r.job, l.job), coalesce(r.scheduled_at, l.scheduled_at), r.state, r.xmin, l.xid)
FROM (SELECT run, job, scheduled_at, min(xmin::text) AS xid, count(*) AS steps, count(DISTINCT xmin::text) AS transactions
      FROM ledger GROUP BY run, job, scheduled_at) l
FULL JOIN (SELECT id, job, scheduled_at, state, xmin FROM holdfast.runs WHERE state = 'succeeded') r ON r.id = l.run
WHERE r.id IS NULL OR l.run IS NULL OR l.steps <> 2 OR l.transactions <> 1 OR l.xid <> r.xmin::text
LIMIT 10`)
	if err != nil {
		tr.t.Fatal(err)
	}
	for _, b := range broken {
		tr.t.Error(b.Text)
	}
	tr.t.Logf("%d successes, each with its rows",
		askOne[int](tr.cluster, `SELECT count(*) FROM holdfast.runs WHERE state = 'succeeded'`))
}

func trialLength(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(trialMinutes)
	if text == "" {
		return 5 * time.Minute
	}
	minutes, err := strconv.Atoi(text)
	if err != nil || minutes < 1 || minutes > 60 {
		t.Fatalf("%s: want 1 to 60 minutes, got %q", trialMinutes, text)
	}
	return time.Duration(minutes) * time.Minute
}

func trialSeedOf(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64() >> 1
	if text := os.Getenv(trialSeed); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", trialSeed, err)
		}
	}
	t.Logf("%s=%d repeats the order of the faults", trialSeed, seed)
	return seed
}
