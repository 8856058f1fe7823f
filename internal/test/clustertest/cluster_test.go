package clustertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/internal/test/replicas"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

const (
	clusterLimit = 5 * time.Minute // for all waits of one test
	pollEvery    = 20 * time.Millisecond
)

// settings are the parts of the replicas' configuration that tests vary.
type settings struct {
	stock     bool          // the stock binary instead of the test binary
	url       string        // of the database; "" for a clone of the template, made by newCluster
	heartbeat string        // 500ms unless set
	expires   string        // 5s unless set
	grace     string        // 30s unless set
	lease     string        // 10s unless set
	servers   string        // of memcached, in YAML; "" for the cluster's own
	memcached string        // more keys under locking.memcached: ", key: value"
	more      string        // more keys under locking
	wait      string        // two tries unless set
	misfire   string        // 30s unless set
	admin     string        // more keys under admin: ", key: value"
	refresh   string        // of pages; 5s unless set
	history   string        // how long runs are kept; 720h unless set
	jobs      string        // the cron table, in YAML
	limit     time.Duration // for all waits of the test; clusterLimit unless set
}

// cluster is a set of replicas with one configuration, and with a database and a memcached of their
// own.
type cluster struct {
	t         *testing.T
	ctx       context.Context
	settings  settings
	dir       string
	url       string
	db        *pgxpool.Pool
	memcached *servertest.Memcached
	replicas  map[string]*replicas.Process
}

func newCluster(t *testing.T, s settings) *cluster {
	t.Helper()
	if s.url == "" {
		s.url = preparedServer(t).Clone(t, template)
	}
	limit := cmp.Or(s.limit, clusterLimit)
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit,
		fmt.Errorf("the test did not end within %s", limit))
	t.Cleanup(cancel)
	c := &cluster{t: t, ctx: ctx, settings: s, dir: t.TempDir(), url: s.url,
		replicas: map[string]*replicas.Process{}}
	var err error
	if c.db, err = pgxpool.New(ctx, c.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.db.Close)
	c.memcached = servertest.NewMemcached(t)
	t.Cleanup(c.endReplicas)
	t.Cleanup(c.report)
	return c
}

// endReplicas ends the replicas that still run and checks all logs for messages that no test may
// cause.
func (c *cluster) endReplicas() {
	for _, name := range slices.Sorted(maps.Keys(c.replicas)) {
		p := c.replicas[name]
		if err := p.Kill(); err != nil {
			c.t.Error(err)
		}
		log := p.Log()
		for _, bad := range []string{"DATA RACE", "\npanic: ", "\nfatal error: "} {
			if strings.Contains("\n"+log, bad) {
				c.t.Errorf("log of replica %s has %q", name, bad)
			}
		}
		if c.t.Failed() {
			c.t.Logf("log of replica %s:\n%s", name, log[max(0, len(log)-6000):])
			c.t.Logf("its warnings:\n%s", warnings(log))
		}
	}
}

// warnings returns the first lines of a log that are warnings or errors.
func warnings(log string) string {
	var lines []string
	for line := range strings.Lines(log) {
		if !strings.Contains(line, `"level":"info"`) && len(lines) < 40 {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// unsettled describes all unfinished runs and their claims in the database, to explain a failed
// test.
const unsettled = `
SELECT format('session %s of %s: heartbeat %s, expires %s, ended %s, sweep %s', id, replica, renewed_at, expires_at, ended_at, sweep) FROM holdfast.sessions
UNION ALL
SELECT format('claim %s: run %s, session %s, granted %s', token, run, session, granted_at) FROM holdfast.claims
UNION ALL
SELECT format('run %s of %s scheduled_at %s: %s, session %s, token %s, started %s, wait %s', r.id, job, scheduled_at, state, r.session, token, started_at, w)
    FROM holdfast.runs r LEFT JOIN holdfast.waits w ON w.run = r.id WHERE finished_at IS NULL
UNION ALL
SELECT format('backend %s: %s, %s since %s, waits for %s: %s', pid, client_port, state, state_change, wait_event, left(query, 100))
    FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND (state <> 'idle' OR wait_event_type = 'Lock')
UNION ALL
SELECT format('it is %s', clock_timestamp())`

// report logs the unfinished runs if the test has failed.
func (c *cluster) report() {
	if !c.t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	lines, err := ask[struct{ Text string }](ctx, c, unsettled)
	for _, line := range lines {
		c.t.Log(line.Text)
	}
	if err != nil {
		c.t.Log(err)
	}
}

const configuration = `
database: {url: %q, max_connections: 12}
replica: {name: "${REPLICA}"}
locking:
  memcached: {servers: [%s], timeout: 500ms%s}
  lease: %s
  wait: %s
%s
session: {heartbeat: %s, expires: %s}
shutdown_grace: %s
misfire_threshold: %s
admin: {listen: "${LISTEN}", refresh: %s%s}
history: {keep: %s}
log: {format: json, level: info}
jobs:
%s`

func (c *cluster) config() string {
	s := c.settings
	return fmt.Sprintf(configuration, c.url, cmp.Or(s.servers, strconv.Quote(c.memcached.Addr())),
		s.memcached, cmp.Or(s.lease, "10s"),
		cmp.Or(s.wait, "{attempts: 2, delay: 100ms, backoff: constant}"),
		s.more, cmp.Or(s.heartbeat, "500ms"), cmp.Or(s.expires, "5s"), cmp.Or(s.grace, "30s"),
		cmp.Or(s.misfire, "30s"),
		cmp.Or(s.refresh, "5s"), s.admin, cmp.Or(s.history, "720h"), cmp.Or(s.jobs, "  []\n"))
}

// launch starts a replica and does not wait until it is ready.
func (c *cluster) launch(name string) *replicas.Process {
	c.t.Helper()
	p, err := replicas.Start(c.ctx, c.spec(name))
	if err != nil {
		c.t.Fatal(err)
	}
	c.replicas[name] = p
	return p
}

// spec returns the command and configuration of a replica.
func (c *cluster) spec(name string) replicas.Spec {
	c.t.Helper()
	spec := replicas.Spec{Name: name, Config: c.config(), Dir: c.dir}
	if c.settings.stock {
		spec.Program = stockProgram(c.t)
	} else {
		spec.Program, spec.Env = ownProgram(c.t), []string{asProgram + "=1"}
	}
	return spec
}

// start starts replicas and waits until each can start runs.
func (c *cluster) start(names ...string) {
	c.t.Helper()
	for _, name := range names {
		c.launch(name)
	}
	for _, name := range names {
		if err := c.replicas[name].Ready(c.ctx); err != nil {
			c.t.Fatal(err)
		}
	}
}

// other returns the other one of two replicas.
func (c *cluster) other(name string) *replicas.Process {
	c.t.Helper()
	if len(c.replicas) != 2 {
		c.t.Fatalf("there are %d replicas, not two", len(c.replicas))
	}
	for other, p := range c.replicas {
		if other != name {
			return p
		}
	}
	panic("two replicas of one name")
}

// await calls check until it returns true. It retries after an error, because a server may be down
// for a while.
func (c *cluster) await(what string, check func(ctx context.Context) (bool, error)) {
	c.t.Helper()
	var last error
	for {
		bounded, cancel := context.WithTimeout(c.ctx, 10*time.Second)
		done, err := check(bounded)
		cancel()
		if err == nil && done {
			return
		}
		last = cmp.Or(err, last)
		select {
		case <-time.After(pollEvery):
		case <-c.ctx.Done():
			c.t.Fatalf("%s: never (%v)", what, errors.Join(context.Cause(c.ctx), last))
		}
	}
}

// awaitLog waits until a replica has logged text.
func (c *cluster) awaitLog(p *replicas.Process, text string) {
	c.t.Helper()
	c.await(fmt.Sprintf("log of replica %s says %q", p.Name, text),
		func(context.Context) (bool, error) {
			return strings.Contains(p.Log(), text), nil
		})
}

// expectLine waits until a replica has logged a line with all the texts. It fails the test if there
// are several.
func (c *cluster) expectLine(p *replicas.Process, texts ...string) {
	c.t.Helper()
	found := 0
	c.await(fmt.Sprintf("a line of replica %s with %q", p.Name, texts),
		func(context.Context) (bool, error) {
			found = 0
			for line := range strings.Lines(p.Log()) {
				if !slices.ContainsFunc(texts, func(text string) bool {
					return !strings.Contains(line, text)
				}) {
					found++
				}
			}
			return found > 0, nil
		})
	if found > 1 {
		c.t.Errorf("replica %s has %d lines with %q, want one", p.Name, found, texts)
	}
}

func (c *cluster) exec(statement string, args ...any) {
	c.t.Helper()
	if _, err := c.db.Exec(c.ctx, statement, args...); err != nil {
		c.t.Fatal(err)
	}
}

// open opens a gate of the ledger.
func (c *cluster) open(gate string) {
	c.t.Helper()
	c.exec(`INSERT INTO gates VALUES ($1)`, gate)
}

// ask returns the rows of a query. The columns go into the fields of T.
func ask[T any](ctx context.Context, c *cluster, query string, args ...any) ([]T, error) {
	return askIn[T](ctx, c.db, query, args...)
}

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func askIn[T any](ctx context.Context, q querier, query string, args ...any) ([]T, error) {
	rows, err := q.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}

// askOne returns the only value of a query's result.
func askOne[T any](c *cluster, query string, args ...any) T {
	c.t.Helper()
	var value T
	if err := c.db.QueryRow(c.ctx, query, args...).Scan(&value); err != nil {
		c.t.Fatalf("%s: %v", query, err)
	}
	return value
}
