package postgres

import (
	"errors"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func TestRunStatementsSendsTwoBatchesOfItsOwn(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	s.exec("CREATE TABLE public.orders (n int)")
	insert := script("INSERT INTO orders VALUES (1)")
	counter := &turns{}
	traced := openTraced(t, s.url, 1, counter)
	traced.work = traced.pool
	for _, job := range []string{"first", "second"} { // the second finds its statements prepared
		run := s.granted(traced, session, request(t, job, "orders"))
		counter.batches, counter.queries = 0, 0
		if _, err := traced.RunStatements(t.Context(), run, insert); err != nil {
			t.Fatal(err)
		}
		if state := s.state(run.ID); state != "succeeded" {
			t.Errorf("run is %s", state)
		}
	}
	if counter.batches != 2 || counter.queries != 0 {
		t.Errorf("%d batches and %d single statements around the job's own, want 2 and none",
			counter.batches, counter.queries)
	}
}

// leavings are changes that a job's statements can leave in their session.
var leavings = []string{
	"SELECT set_config('search_path', 'nowhere', false)",
	"SET work_mem = '1MB'",
	"CREATE TEMP TABLE left_behind (n int)",
	"LISTEN left_behind",
	"SELECT pg_advisory_lock(7)",
}

func TestJobsLeaveNoStateInAConnection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		leave func(s *harness, store *Store, run *jobs.Run) error
		fails bool
	}{
		{"statements", func(s *harness, store *Store, run *jobs.Run) error {
			_, err := store.RunStatements(s.t.Context(), run, script(leavings...))
			return err
		}, false},
		{"failing statements", func(s *harness, store *Store, run *jobs.Run) error {
			_, err := store.RunStatements(s.t.Context(), run,
				script(append(slices.Clone(leavings), "SELECT 1/0")...))
			return err
		}, true},
		{"a transaction", func(s *harness, store *Store, run *jobs.Run) error {
			return InTx(s.t.Context(), run, func(tx pgx.Tx) error { return leave(s, tx) })
		}, false},
		{"statements, then a transaction", func(s *harness, store *Store, run *jobs.Run) error {
			if err := InTx(s.t.Context(), run, func(pgx.Tx) error { return nil }); err != nil {
				return err
			}
			if _, err := store.RunStatements(s.t.Context(), run,
				script(leavings[:1]...)); err != nil {
				return err
			}
			later := s.granted(store, s.session(store, "later"), request(s.t, "later", "sales"))
			return InTx(s.t.Context(), later, func(tx pgx.Tx) error { return leave(s, tx) })
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newHarness(t)
			store, err := Open(t.Context(),
				Options{URL: s.url, WorkConnections: 1, Log: zerolog.Nop()})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			var before int
			if err := store.Pool().QueryRow(t.Context(), "SELECT pg_backend_pid()").
				Scan(&before); err != nil {
				t.Fatal(err)
			}
			s.t = t
			if err := c.leave(s, store,
				s.granted(store, s.session(store, "a"),
					request(t, "job", "orders"))); (err != nil) != c.fails {
				t.Fatal(err)
			}
			var left struct {
				pid, locks, channels int
				path, memory         string
				table                *string
			}
			if err := store.Pool().QueryRow(t.Context(), `
SELECT pg_backend_pid(), (SELECT count(*) FROM pg_locks
    WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
    (SELECT count(*) FROM pg_listening_channels()), current_setting('search_path'),
        current_setting('work_mem'), to_regclass('pg_temp.left_behind')::text`).
				Scan(&left.pid, &left.locks, &left.channels, &left.path, &left.memory,
					&left.table); err != nil {
				t.Fatal(err)
			}
			if left.pid != before {
				t.Error("connection: got a closed one, want an open one")
			}
			if left.locks != 0 || left.channels != 0 || left.path != `"$user", public` ||
				left.memory != "4MB" || left.table != nil {
				t.Errorf("left in the session: %+v", left)
			}
		})
	}
}

func leave(s *harness, tx pgx.Tx) error {
	for _, statement := range leavings {
		if _, err := tx.Exec(s.t.Context(), statement); err != nil {
			return err
		}
	}
	return nil
}

// The job itself deletes the row that its finish needs. Nobody else can delete it while the fence
// check is in effect.
func TestCommitAfterARefusedFinishDoesNothing(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"claim gone":    "DELETE FROM holdfast.claims",
		"run not there": "UPDATE holdfast.runs SET state = 'cancelled'",
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t)
			s.exec("CREATE TABLE public.orders (n int)")
			run := s.granted(s.a, s.session(s.a, "a"), request(t, "job", "orders"))
			_, err := s.a.RunStatements(t.Context(), run,
				script("INSERT INTO orders VALUES (1)", sql))
			if !errors.Is(err, storage.ErrSuperseded) {
				t.Errorf("got %v, want %v", err, storage.ErrSuperseded)
			}
			if n := query[int](s, "SELECT count(*) FROM public.orders"); n != 0 {
				t.Errorf("%d rows were committed", n)
			}
			if state := s.state(run.ID); state != "running" {
				t.Errorf("run is %s", state)
			}
		})
	}
}

// The store's planner settings must not apply to the statements of jobs. What a program has set in
// its transaction before the fence check applies afterwards too.
func TestPlannerSettingsOfTheStoreDoNotApplyToJobs(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	run := s.granted(s.a, s.session(s.a, "a"), request(t, "job", "orders"))
	expect := func(tx pgx.Tx, want string) error {
		var got string
		err := tx.QueryRow(t.Context(), "SELECT current_setting('enable_seqscan') || ' ' || "+
			"current_setting('plan_cache_mode')").Scan(&got)
		if err == nil && got != want {
			t.Errorf("got the settings %q, want %q", got, want)
		}
		return err
	}
	if err := InTx(t.Context(), run, func(tx pgx.Tx) error {
		return expect(tx, "on auto")
	}); err != nil {
		t.Fatal(err)
	}
	if err := pgx.BeginFunc(t.Context(), s.watcher(), func(tx pgx.Tx) error {
		const own = "SET LOCAL enable_seqscan = off; SET LOCAL plan_cache_mode = force_custom_plan"
		if _, err := tx.Exec(t.Context(), own); err != nil {
			return err
		}
		if err := Fence(t.Context(), tx, run); err != nil {
			return err
		}
		return expect(tx, "off force_custom_plan")
	}); err != nil {
		t.Fatal(err)
	}
}

// A program's own connection may not know the types of arguments: many poolers need such a mode.
func TestFenceOnConnectionsOfEveryMode(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	run := s.granted(s.a, s.session(s.a, "a"), request(t, "job", "orders"))
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement,
		pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec,
		pgx.QueryExecModeSimpleProtocol} {
		config, err := pgx.ParseConfig(s.url)
		if err != nil {
			t.Fatal(err)
		}
		config.DefaultQueryExecMode = mode
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			return Fence(t.Context(), tx, run)
		})
		if err := errors.Join(err, conn.Close(t.Context())); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
	}
}
