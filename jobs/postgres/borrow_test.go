package postgres

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// programPool is a pool of a program.
func programPool(t *testing.T, url string, size int32,
	change ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = size
	for _, c := range change {
		c(config)
	}
	opened, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opened.Close)
	return opened
}

// borrowing opens a store on a pool of a program.
func borrowing(t *testing.T, program *pgxpool.Pool) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{Pool: program, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestConformanceOnABorrowedPool(t *testing.T) {
	t.Parallel()
	soak.Only(t)
	jobstest.Run(t, func(t *testing.T) jobstest.Fixture {
		s := &harness{t: t, url: database(t)}
		open := func() *Store {
			store := borrowing(t, programPool(t, s.url, 12))
			store.lockTimeout = "20s"
			return store
		}
		s.a = open()
		return jobstest.Fixture{Store: s.a, Second: func() storage.Store { return open() },
			Expire: s.expire, Pause: s.pauseJobs, Pass: s.pass, PassEnded: s.passEnded}
	})
}

// TestJobsLeaveConnectionsToTheProgram opens as many transactions of jobs as it can. The program
// still gets half of its connections, and starts and heartbeats go on.
func TestJobsLeaveConnectionsToTheProgram(t *testing.T) {
	t.Parallel()
	s := newSingleHarness(t)
	const size = 6
	program := programPool(t, s.url, size)
	store := borrowing(t, program)
	session := s.session(store, "replica")
	s.register(store, session, storage.Definition{Name: "rollup", Hash: "h"})
	result := startedBy(s, s.start(store, session, request(t, "rollup", "sales")))[0]

	ctx, cancel := context.WithCancel(t.Context())
	inside := make(chan struct{}, 10)
	var jobs sync.WaitGroup
	defer func() { cancel(); jobs.Wait() }()
	for range 10 {
		jobs.Go(func() {
			_ = store.fenced(ctx, holder{token: result.Token},
				committing(ctx, func(pgx.Tx) error {
					inside <- struct{}{}
					<-ctx.Done()
					return ctx.Err()
				}))
		})
	}
	<-inside
	var held []*pgxpool.Conn
	defer func() {
		for _, conn := range held {
			conn.Release()
		}
	}()
	acquire := func() {
		t.Helper()
		bounded, end := context.WithTimeout(ctx, 20*time.Second)
		defer end()
		conn, err := program.Acquire(bounded)
		if err != nil {
			t.Fatalf("the program has %d connections and gets no other: %v", len(held), err)
		}
		held = append(held, conn)
	}
	for range size / 2 { // the part of the program
		acquire()
	}
	if n := len(inside); n != 0 {
		t.Errorf("%d more transactions of jobs began, want none", n)
	}
	next := request(t, "rollup", "orders")
	next.Firing.ScheduledAt = next.Firing.ScheduledAt.Add(time.Minute)
	if got := startedBy(s, s.start(store, session, next))[0]; got.Outcome == 0 {
		t.Errorf("start beside the jobs: %+v", got)
	}
	for len(held) < size-1 { // all others: a heartbeat still has its own connection
		acquire()
	}
	if _, err := store.Heartbeat(ctx, session, storage.ReplicaStatus{}); err != nil {
		t.Errorf("heartbeat beside a busy pool: %v", err)
	}
}

// TestPoolStaysOpen checks that Close leaves the pool and its connections to the program.
func TestPoolStaysOpen(t *testing.T) {
	t.Parallel()
	program := programPool(t, database(t), 6, func(c *pgxpool.Config) {
		c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "SET application_name = 'the program'")
			return err
		}
	})
	store := borrowing(t, program)
	for _, p := range []*dbPool{store.pool, store.views} {
		var name string
		if err := p.QueryRow(t.Context(), "SHOW application_name").Scan(&name); err != nil ||
			name != "the program" {
			t.Errorf("AfterConnect did not run on a connection: %q, %v", name, err)
		}
	}
	store.Close()
	if err := program.Ping(t.Context()); err != nil {
		t.Errorf("the pool after Close: %v", err)
	}
	if n := program.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections were not returned", n)
	}
}

func TestPoolsThatAreRefused(t *testing.T) {
	t.Parallel()
	url := database(t)
	setting := func(name, value string) func(*pgxpool.Config) {
		return func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams[name] = value }
	}
	for _, c := range []struct {
		size   int32
		change func(*pgxpool.Config)
		want   string
	}{
		{4, func(*pgxpool.Config) {}, "at most 4 connections, expected at least 6"},
		{6, setting("default_transaction_isolation", "serializable"), "found serializable"},
		{6, setting("default_transaction_read_only", "on"), "read-only"},
		{6, setting("session_replication_role", "replica"), "session_replication_role"},
		{6, setting("synchronous_commit", "off"), "synchronous_commit of the pool is off"},
		{6, func(c *pgxpool.Config) {
			c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
		}, `default_query_exec_mode is "simple protocol"`},
		{6, func(c *pgxpool.Config) {
			c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		}, `default_query_exec_mode is "exec"`},
	} {
		_, err := Open(t.Context(), Options{Pool: programPool(t, url, c.size, c.change),
			Log: zerolog.Nop()})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// Starts have lists as arguments, which pgx cannot encode in every mode.
func TestModesOfConnections(t *testing.T) {
	t.Parallel()
	for mode, works := range map[string]bool{"cache_statement": true, "cache_describe": true,
		"describe_exec": true, "exec": false, "simple_protocol": false} {
		t.Run(mode, func(t *testing.T) {
			s := newSingleHarness(t)
			s.exec("CREATE TABLE public.orders (n int)")
			store, err := Open(t.Context(), Options{URL: s.url + "&default_query_exec_mode=" + mode,
				Log: zerolog.Nop()})
			if !works {
				if err == nil || !strings.Contains(err.Error(), "expected cache_statement") {
					t.Errorf("got %v, want the modes that work", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(store.Close)
			run := s.granted(store, s.session(store, "replica"), request(t, "job", "orders"))
			if _, err := store.RunStatements(t.Context(), run,
				script("INSERT INTO public.orders VALUES (1)")); err != nil {
				t.Error(err)
			}
		})
	}
}
