package postgres

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// server is the PostgreSQL that TestMain started; nil with -short.
var server *servertest.Postgres

const template = "migrated"

func TestMain(m *testing.M) {
	if err := soak.Checks(20); err != nil {
		panic(err)
	}
	os.Exit(servertest.Main(m, func(p *servertest.Postgres) {
		server = p
		if err := migrateTemplate(p); err != nil {
			panic(err)
		}
	}))
}

func migrateTemplate(p *servertest.Postgres) error {
	ctx := context.Background()
	if err := p.CreateDatabase(ctx, template, "template0"); err != nil {
		return err
	}
	s, err := Open(ctx, Options{URL: p.URL(template), Migrate: true, Log: zerolog.Nop()})
	if err != nil {
		return err
	}
	s.Close()
	return nil
}

// database returns the URL of a migrated database of the test's own.
func database(t testing.TB) string {
	t.Helper()
	if server == nil {
		t.Skip("needs PostgreSQL: run without -short")
	}
	return server.Clone(t, template)
}

// openAs opens a store whose backends have the application name. Its lock timeouts are long enough
// for planned interleavings.
func openAs(t testing.TB, url, name string) *Store {
	t.Helper()
	separator := "?"
	if strings.Contains(url, "?") {
		separator = "&"
	}
	s, err := Open(t.Context(), Options{URL: url + separator + "application_name=" + name,
		Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	s.lockTimeout = "20s"
	t.Cleanup(s.Close)
	return s
}

// harness is a database with two stores, a and b, and a watcher that controls what happens between
// their statements.
type harness struct {
	t    *testing.T
	url  string
	a, b *Store
	// schema of the statements of the watcher; "": DefaultSchema
	schema schemaName

	connection *pgx.Conn // of the watcher; nil until it is used
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	s := newSingleHarness(t)
	s.b = openAs(t, s.url, "b")
	return s
}

// newSingleHarness is newHarness without store b.
func newSingleHarness(t *testing.T) *harness {
	t.Helper()
	s := &harness{t: t, url: database(t)}
	s.a = openAs(t, s.url, "a")
	return s
}

// watcher returns the watcher's connection, which the first call opens.
func (s *harness) watcher() *pgx.Conn {
	s.t.Helper()
	if s.connection == nil {
		connection, err := pgx.Connect(s.t.Context(), s.url)
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() { connection.Close(context.Background()) })
		s.connection = connection
	}
	return s.connection
}

// exec runs a statement on the watcher's connection.
func (s *harness) exec(sql string, args ...any) {
	s.t.Helper()
	if _, err := s.watcher().Exec(s.t.Context(), s.schema.in(sql), args...); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

// history inserts the rows of a history, in one transaction, without the triggers that record each
// ended run for charts and webhooks. With thousands of runs, they would take most of the test's
// time.
func (s *harness) history(sql string, args ...any) {
	s.t.Helper()
	s.exec("SET LOCAL session_replication_role = replica; "+sql,
		append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
}

// vacuum vacuums and analyzes the tables of the store. Those of the server's catalog would take
// most of the time.
func (s *harness) vacuum() {
	s.t.Helper()
	s.exec(query[string](s, `SELECT 'VACUUM ANALYZE ' || string_agg(oid::regclass::text, ', ')
		FROM pg_class WHERE relnamespace = 'holdfast'::regnamespace AND relkind = 'r'`))
}

func query[T any](s *harness, sql string, args ...any) T {
	s.t.Helper()
	var v T
	if err := s.watcher().QueryRow(s.t.Context(), s.schema.in(sql),
		args...).Scan(&v); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// gate is the advisory lock at which planned pauses wait. The watcher holds it.
const gate = 4242

// pause makes every backend of the store pause at the event on the table until the returned
// function is called. An event such as "INSERT" pauses before the row is written. "COMMIT" pauses
// the commit of any transaction that inserted into the table.
func (s *harness) pause(application, table, event, condition string) (resume func()) {
	s.t.Helper()
	s.exec("SELECT pg_advisory_lock($1)", gate)
	s.exec(fmt.Sprintf(`
CREATE OR REPLACE FUNCTION public.wait_at_gate() RETURNS trigger LANGUAGE plpgsql
SET lock_timeout = 0 AS $$
BEGIN
    IF current_setting('application_name') = '%s' AND (%s) THEN
        PERFORM pg_advisory_xact_lock_shared(%d);
    END IF;
    RETURN coalesce(NEW, OLD);
END $$`, application, condition, gate))
	if event == "COMMIT" {
		s.exec("CREATE CONSTRAINT TRIGGER gate AFTER INSERT ON " + table +
			" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.wait_at_gate()")
	} else {
		s.exec("CREATE TRIGGER gate BEFORE " + event + " ON " + table +
			" FOR EACH ROW EXECUTE FUNCTION public.wait_at_gate()")
	}
	return func() {
		s.t.Helper()
		s.exec("SELECT pg_advisory_unlock($1)", gate)
	}
}

// awaitWaiting returns when a backend of the store waits for a lock. It fails the test if done
// delivers first.
func awaitWaiting[T any](s *harness, application string, done <-chan T) {
	s.t.Helper()
	if _, early := waitingBackend(s, application, done); early != nil {
		s.t.Fatalf("%s went through without waiting: %+v", application, *early)
	}
}

// waitingBackend waits for a backend of the application that waits for a lock, and returns its
// process ID, or what came from done before.
func waitingBackend[T any](s *harness, application string, done <-chan T) (pid int, early *T) {
	s.t.Helper()
	for {
		pids := query[[]int](s, "SELECT coalesce(array_agg(pid), '{}') FROM pg_stat_activity "+
			"WHERE datname = current_database() AND application_name = $1 "+
			"AND wait_event_type = 'Lock'", application)
		if len(pids) > 0 {
			return pids[0], nil
		}
		select {
		case result := <-done:
			return 0, &result
		case <-s.t.Context().Done():
			s.t.Fatalf("%s never waited", application)
		default:
		}
	}
}

func (s *harness) session(store *Store, replica string) uuid.UUID {
	s.t.Helper()
	id := uuid.New()
	if err := store.Open(s.t.Context(),
		storage.Session{ID: id, Replica: replica, Version: "test", TTL: time.Hour}); err != nil {
		s.t.Fatal(err)
	}
	return id
}

// register registers the definitions for the session.
func (s *harness) register(store *Store, session uuid.UUID, definitions ...storage.Definition) {
	s.t.Helper()
	if _, err := store.Register(s.t.Context(), session, definitions); err != nil {
		s.t.Fatal(err)
	}
}

// fences adds fences, so that two transactions with new names do not already wait for each other
// where they add them.
func (s *harness) fences(names ...string) {
	s.t.Helper()
	s.exec("INSERT INTO holdfast.fences SELECT unnest($1::text[])", names)
}

func (s *harness) expire(session uuid.UUID) {
	s.t.Helper()
	s.exec("UPDATE holdfast.sessions SET expires_at = clock_timestamp() WHERE id = $1", session)
}

var testScheduledAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// request is a first start of the job at testScheduledAt with exclusive tables.
func request(t testing.TB, job string, tables ...string) storage.StartRequest {
	t.Helper()
	var requests []locking.Request
	for _, name := range tables {
		resource, err := locking.Table(name, "public")
		if err != nil {
			t.Fatal(err)
		}
		requests = append(requests, locking.Request{Resource: resource, Mode: locking.Exclusive})
	}
	requests, err := locking.Normalize(requests)
	if err != nil {
		t.Fatal(err)
	}
	return storage.StartRequest{
		Run: uuid.New(), Firing: storage.Firing{Job: job, ScheduledAt: testScheduledAt}, Attempt: 1,
		Requests: requests, WaitSince: time.Now(),
		Reserve: time.Hour, New: true,
	}
}

// again returns the request as the caller sends it the second time.
func again(r storage.StartRequest) storage.StartRequest {
	r.New = false
	return r
}

// way changes a new request, or leaves it new.
type way func(storage.StartRequest) storage.StartRequest

// eachWay runs the test with new requests, and with requests as they are sent the second time: the
// store decides on them by different statements.
func eachWay(t *testing.T, test func(t *testing.T, ask way)) {
	for name, ask := range map[string]way{
		"new": func(r storage.StartRequest) storage.StartRequest { return r }, "again": again,
	} {
		t.Run(name, func(t *testing.T) { test(t, ask) })
	}
}

// lockFences locks all fences in a transaction, which release ends.
func (s *harness) lockFences(store *Store) (release func()) {
	s.t.Helper()
	tx, err := store.pool.Begin(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	release = sync.OnceFunc(func() {
		if err := tx.Rollback(context.Background()); err != nil {
			s.t.Error(err)
		}
	})
	s.t.Cleanup(release)
	if _, err := tx.Exec(s.t.Context(), "SELECT FROM holdfast.fences FOR UPDATE"); err != nil {
		s.t.Fatal(err)
	}
	return release
}

type started struct {
	results []storage.StartResult
	err     error
}

// start begins a start in the background.
func (s *harness) start(store *Store, session uuid.UUID,
	requests ...storage.StartRequest) <-chan started {
	done := make(chan started, 1)
	go func() {
		results, err := jobstest.StartDecided(s.t.Context(), store, session, requests)
		done <- started{results, err}
	}()
	return done
}

// outcomes waits for a start and returns the outcome of each request.
func (s *harness) outcomes(done <-chan started) []storage.StartOutcome {
	s.t.Helper()
	got := <-done
	if got.err != nil {
		s.t.Fatal(got.err)
	}
	var outcomes []storage.StartOutcome
	for _, r := range got.results {
		outcomes = append(outcomes, r.Outcome)
	}
	return outcomes
}

func (s *harness) expect(done <-chan started, want ...storage.StartOutcome) {
	s.t.Helper()
	if got := s.outcomes(done); !slices.Equal(got, want) {
		s.t.Fatalf("outcomes %v, want %v", got, want)
	}
}

// granted starts one run and returns it with its token.
func (s *harness) granted(store *Store, session uuid.UUID, r storage.StartRequest) *jobs.Run {
	s.t.Helper()
	results, err := jobstest.StartDecided(s.t.Context(), store, session,
		[]storage.StartRequest{r})
	if err != nil || results[0].Outcome != storage.StartGranted {
		s.t.Fatalf("start: %+v, %v", results, err)
	}
	return jobstest.StoredRun(store, r, results[0].Token)
}

// script returns statements without arguments.
func script(statements ...string) storage.Script {
	var s storage.Script
	for _, sql := range statements {
		s.Statements = append(s.Statements, storage.Statement{SQL: sql})
	}
	return s
}

// finished ends a run that has succeeded.
func (s *harness) finished(store *Store, run *jobs.Run) {
	s.t.Helper()
	done, err := store.Finish(s.t.Context(), []storage.FinishRequest{{Run: run.ID,
		Token: run.Token, State: jobs.Succeeded}})
	if err != nil || !done[0] {
		s.t.Fatalf("finish: %v, %v", done, err)
	}
}

func (s *harness) state(run uuid.UUID) string {
	s.t.Helper()
	return query[string](s, "SELECT state FROM holdfast.runs WHERE id = $1", run)
}

// pauseJobs inserts a pause.
func (s *harness) pauseJobs(p storage.Pause) {
	s.t.Helper()
	s.exec(`INSERT INTO holdfast.pauses VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		p.ID, p.Target.Kind, p.Target.Name, p.At, p.By, p.Reason, p.ResumedAt, p.ResumedBy)
}

// passEnded moves the times of ended sessions into the past.
func (s *harness) passEnded(d time.Duration) {
	s.t.Helper()
	s.exec("UPDATE holdfast.sessions SET started_at = started_at - $1::interval, renewed_at = "+
		"renewed_at - $1::interval, expires_at = expires_at - $1::interval, ended_at = ended_at - "+
		"$1::interval WHERE ended_at IS NOT NULL", d)
	s.exec("UPDATE holdfast.past_sessions SET started_at = started_at - $1::interval, "+
		"expires_at = expires_at - $1::interval, ended_at = ended_at - $1::interval", d)
}

// pass moves the times of sessions, cursors and waiting runs into the past.
func (s *harness) pass(d time.Duration) {
	s.t.Helper()
	for _, sql := range []string{
		"UPDATE holdfast.sessions SET started_at = started_at - $1::interval, renewed_at = CASE " +
			"WHEN ended_at IS NULL THEN renewed_at ELSE renewed_at - $1::interval END",
		"UPDATE holdfast.jobs SET checked_until = checked_until - $1::interval, left_at = " +
			"left_at - $1::interval, back_at = back_at - $1::interval",
		"UPDATE holdfast.waits SET since = since - $1::interval, reserved_until = reserved_until " +
			"- $1::interval",
		"UPDATE holdfast.wants SET since = since - $1::interval",
	} {
		s.exec(sql, d)
	}
}
