package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// running is a store with a user's table, and a run that may write to it.
type running struct {
	*sqlite.Store
	session uuid.UUID
	run     *jobs.Run
}

func startRun(t *testing.T) running {
	t.Helper()
	s := open(t)
	if _, err := s.Writer().Exec(
		"CREATE TABLE sales (id INTEGER PRIMARY KEY, amount INTEGER NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	session := openSession(t, s)
	request := batch(t, 1)[0]
	results, err := s.Start(t.Context(), session, []storage.StartRequest{request})
	if err != nil || results[0].Outcome != storage.StartGranted {
		t.Fatalf("start %+v (%v)", results, err)
	}
	return running{s, session, jobstest.StoredRun(s, request, results[0].Token)}
}

func (r running) expect(t *testing.T, state jobs.State, sales int) storage.Record {
	t.Helper()
	record, err := r.Run(t.Context(), r.run.ID)
	if err != nil || record.State != state {
		t.Errorf("run is %s (%v), want %s", record.State, err, state)
	}
	found := 0
	if err := r.Writer().QueryRow("SELECT count(*) FROM sales").Scan(&found); err != nil ||
		found != sales {
		t.Errorf("%d sales (%v), want %d", found, err, sales)
	}
	return record
}

func (r running) revoke(t *testing.T) {
	t.Helper()
	if err := r.Revoke(t.Context(), r.run.Token, jobs.Lost, reasons.ClaimLost); err != nil {
		t.Fatal(err)
	}
}

func insertSale(tx *sql.Tx) error {
	_, err := tx.Exec("INSERT INTO sales (amount) VALUES (1)")
	return err
}

// SQLite's functions read the times, whose texts are in the order of the times.
func TestTimesOfJobsAreText(t *testing.T) {
	r := startRun(t)
	at := time.Date(2026, 1, 31, 3, 30, 0, 0, time.FixedZone("", 3600))
	half := at.Add(500 * time.Millisecond)
	var texts []string
	var next sql.NullTime
	if err := r.run.InTx(t.Context(), func(tx jobs.Tx) error {
		_, err := tx.Exec(t.Context(), "CREATE TABLE totals (at DATETIME)")
		if err != nil {
			return err
		}
		_, err = tx.Exec(t.Context(),
			"INSERT INTO totals VALUES ($1), ($2), ($3), ($4), ($5), (@at)", at, &half,
			sql.NullTime{Time: at, Valid: true}, sql.NullTime{}, (*time.Time)(nil),
			sql.Named("at", at))
		if err != nil {
			return err
		}
		err = tx.Query(t.Context(), func(scan func(...any) error) error {
			texts = append(texts, "")
			return scan(&texts[len(texts)-1])
		}, "SELECT coalesce(at || ' ' || date(at), 'NULL') FROM totals ORDER BY rowid")
		if err != nil {
			return err
		}
		return tx.Query(t.Context(), func(scan func(...any) error) error { return scan(&next) },
			"SELECT at FROM totals WHERE at > $1", at)
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{"2026-01-31 02:30:00 2026-01-31", "2026-01-31 02:30:00.5 2026-01-31",
		"2026-01-31 02:30:00 2026-01-31", "NULL", "NULL",
		"2026-01-31 02:30:00 2026-01-31"}
	if !slices.Equal(texts, want) {
		t.Errorf("got %q, want %q", texts, want)
	}
	if !next.Time.Equal(half) {
		t.Errorf("the time after %s is %s, want %s", at, next.Time, half)
	}
}

func TestExecCountsOnlyItsOwnRows(t *testing.T) {
	r := startRun(t)
	if err := r.run.InTx(t.Context(), func(tx jobs.Tx) error {
		for _, c := range []struct {
			statement string
			want      int64
		}{
			{"INSERT INTO sales (amount) VALUES (1), (2)", 2},
			{"CREATE TABLE more (a)", 0},
			{"DELETE FROM sales WHERE amount = 2", 1},
			{"SELECT 1", 0},
		} {
			rows, err := tx.Exec(t.Context(), c.statement)
			if err != nil {
				return err
			}
			if rows != c.want {
				t.Errorf("%s: got %d rows, want %d", c.statement, rows, c.want)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// script returns statements without arguments.
func script(statements ...string) storage.Script {
	var s storage.Script
	for _, sql := range statements {
		s.Statements = append(s.Statements, storage.Statement{SQL: sql})
	}
	return s
}

func TestStatementsAndFinishAreOneTransaction(t *testing.T) {
	r := startRun(t)
	rows, err := r.RunStatements(t.Context(), r.run, storage.Script{Statements: []storage.Statement{
		{SQL: "INSERT INTO sales (amount) VALUES (?), (?), (?)", Args: []any{1, 2, 3}},
		{SQL: "SELECT 1"},
		{SQL: "UPDATE sales SET amount = 0 WHERE amount > ?", Args: []any{1}},
		{SQL: "CREATE TABLE more (a)"},
		{SQL: "DELETE FROM sales WHERE amount > 100"},
	}})
	if err != nil || !slices.Equal(rows, []int64{3, 0, 2, 0, 0}) {
		t.Fatalf("rows %v (%v)", rows, err)
	}
	record := r.expect(t, jobs.Succeeded, 3)
	if !strings.Contains(record.Output, "statement 1: 3 rows") || record.FinishedAt == nil {
		t.Errorf("record %+v", record)
	}
	grants := 0
	if err := r.Writer().QueryRow("SELECT count(*) FROM holdfast_grants").
		Scan(&grants); err != nil || grants != 0 {
		t.Errorf("%d grants are left (%v)", grants, err)
	}
	// A later finish by the engine reports the same result.
	done, err := r.Finish(t.Context(),
		[]storage.FinishRequest{{Run: r.run.ID, Token: r.run.Token, State: jobs.Succeeded}})
	if err != nil || !done[0] {
		t.Errorf("finish %v (%v)", done, err)
	}
}

func TestFailedStatementIsNotCached(t *testing.T) {
	for name, second := range map[string]string{
		"missing table": "INSERT INTO nowhere VALUES (1)", "constraint": "INSERT INTO sales VALUES (1, 1), (1, 2)",
		"own rollback": "INSERT OR ROLLBACK INTO sales VALUES (7, NULL)", "syntax": "SELEC 1",
	} {
		t.Run(name, func(t *testing.T) {
			r := startRun(t)
			rows, err := r.RunStatements(t.Context(), r.run,
				script("INSERT INTO sales (amount) VALUES (1)", second))
			if err == nil || rows != nil || !strings.Contains(err.Error(), "statement 2") {
				t.Fatalf("rows %v, error %v, want one about statement 2", rows, err)
			}
			r.expect(t, jobs.Running, 0)
			startFinish(t, r.Store, r.session, 1) // the writer works
		})
	}
}

func TestRefusedStatementRunsNothing(t *testing.T) {
	r := startRun(t)
	_, err := r.RunStatements(t.Context(), r.run,
		script("INSERT INTO sales (amount) VALUES (1)", "/* now */ COMMIT"))
	if !errors.Is(err, sqlite.ErrTransactionControl) {
		t.Fatalf("%v, want ErrTransactionControl", err)
	}
	r.expect(t, jobs.Running, 0)
}

func TestSupersededRunWritesNothing(t *testing.T) {
	writes := map[string]func(r running) error{
		"statements": func(r running) error {
			_, err := r.RunStatements(context.Background(), r.run,
				script("INSERT INTO sales (amount) VALUES (1)"))
			return err
		},
		"transaction":            func(r running) error { return sqlite.InTx(context.Background(), r.run, insertSale) },
		"completing transaction": func(r running) error { return sqlite.CompleteInTx(context.Background(), r.run, insertSale) },
	}
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			r := startRun(t)
			r.revoke(t)
			if err := write(r); !errors.Is(err, storage.ErrSuperseded) {
				t.Fatalf("%v, want ErrSuperseded", err)
			}
			r.expect(t, jobs.Lost, 0)
		})
	}
}

func TestAttemptCannotUseTheNextClaim(t *testing.T) {
	r := startRun(t)
	if _, err := r.Finish(t.Context(),
		[]storage.FinishRequest{{Run: r.run.ID, Token: r.run.Token,
			State: jobs.Waiting}}); err != nil {
		t.Fatal(err)
	}
	firing := storage.Firing{Job: r.run.Job, ScheduledAt: r.run.ScheduledAt}
	if _, err := r.Start(t.Context(), r.session,
		[]storage.StartRequest{{Run: r.run.ID, Firing: firing, Attempt: 2}}); err != nil {
		t.Fatal(err)
	}
	if err := sqlite.InTx(t.Context(), r.run, insertSale); !errors.Is(err, storage.ErrSuperseded) {
		t.Fatalf("%v, want ErrSuperseded", err)
	}
	r.expect(t, jobs.Running, 0)
}

func TestTransactionDoesNotEndItsRun(t *testing.T) {
	r := startRun(t)
	for range 2 {
		if err := sqlite.InTx(t.Context(), r.run, insertSale); err != nil {
			t.Fatal(err)
		}
	}
	r.expect(t, jobs.Running, 2)
}

func TestErrorRollsTheTransactionBack(t *testing.T) {
	r := startRun(t)
	cause := errors.New("no")
	for _, inTx := range []func(context.Context, *jobs.Run, func(*sql.Tx) error) error{sqlite.InTx,
		sqlite.CompleteInTx} {
		err := inTx(t.Context(), r.run, func(tx *sql.Tx) error {
			return errors.Join(insertSale(tx), cause)
		})
		if !errors.Is(err, cause) {
			t.Errorf("%v, want the function's own error", err)
		}
	}
	r.expect(t, jobs.Running, 0)
}

// A job can create temporary objects in each of its runs, and other jobs do not write to them.
func TestTemporaryObjectsEndWithTheTransaction(t *testing.T) {
	r := startRun(t)
	for range 2 {
		if err := sqlite.InTx(t.Context(), r.run, func(tx *sql.Tx) error {
			for _, statement := range []string{
				"CREATE TEMP VIEW latest AS SELECT max(id) FROM main.sales",
				"CREATE TEMP TRIGGER ignored BEFORE INSERT ON main.sales BEGIN SELECT raise(ignore); END",
				"CREATE TEMP TABLE sales (amount INTEGER)",
			} {
				if _, err := tx.Exec(statement); err != nil {
					return err
				}
			}
			return insertSale(tx)
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := sqlite.InTx(t.Context(), r.run, insertSale); err != nil {
		t.Error(err)
	}
	r.expect(t, jobs.Running, 1)
	var foreignKeys, synchronous int
	if err := r.Writer().QueryRow("SELECT * FROM pragma_foreign_keys, pragma_synchronous").Scan(
		&foreignKeys, &synchronous); err != nil || foreignKeys != 1 || synchronous != 2 {
		t.Errorf("the writer has foreign_keys=%d, synchronous=%d (%v), want 1 and 2", foreignKeys,
			synchronous, err)
	}
}

func TestRunOfAnotherStoreIsRefused(t *testing.T) {
	run := jobs.NewRun("a", time.Now(), zerolog.Nop())
	for _, inTx := range []func(context.Context, *jobs.Run, func(*sql.Tx) error) error{sqlite.InTx,
		sqlite.CompleteInTx} {
		if err := inTx(t.Context(), run, insertSale); err == nil ||
			!strings.Contains(err.Error(), "not SQLite") {
			t.Errorf("%v, want a refusal", err)
		}
	}
}

// A sweep may find a session dead while its job is about to commit. It must wait for the commit:
// otherwise the run would be lost although it has its effects.
func TestSweepWaitsForTheJobsTransaction(t *testing.T) {
	r := startRun(t)
	if _, err := r.Register(t.Context(), openSession(t, r.Store),
		[]storage.Definition{{Name: r.run.Job, Hash: "h", Recover: true}}); err != nil {
		t.Fatal(err)
	}
	inside, swept := make(chan struct{}), make(chan storage.Swept, 1)
	go func() {
		<-inside
		r.Expire(r.session)
		result, err := r.Sweep(context.Background())
		if err != nil {
			t.Error(err)
		}
		swept <- result
	}()
	err := sqlite.CompleteInTx(t.Context(), r.run, func(tx *sql.Tx) error {
		close(inside)
		select {
		case result := <-swept:
			t.Errorf("swept %+v during the job's transaction", result)
		case <-time.After(100 * time.Millisecond): // long enough for a sweep that doesn't wait
		}
		return insertSale(tx)
	})
	if err != nil {
		t.Fatal(err)
	}
	if result := <-swept; len(result.Lost) != 0 {
		t.Errorf("lost %+v", result.Lost)
	}
	r.expect(t, jobs.Succeeded, 1)
}

func TestLongTransactionDoesNotStopHeartbeatsAndReaders(t *testing.T) {
	r := startRun(t)
	err := sqlite.InTx(t.Context(), r.run, func(tx *sql.Tx) error {
		if err := insertSale(tx); err != nil {
			return err
		}
		heartbeat, err := r.Heartbeat(t.Context(), r.session, storage.ReplicaStatus{})
		if err != nil || heartbeat.Claims[r.run.Token] != r.run.ID {
			t.Errorf("heartbeat %+v (%v)", heartbeat, err)
		}
		locks, err := r.Locks(t.Context())
		if err != nil || len(locks) != 2 || !locks[0].Expires.Equal(heartbeat.Now.Add(time.Hour)) {
			t.Errorf("locks %+v (%v), want two that expire an hour after %s", locks, err,
				heartbeat.Now)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCallThatWaitsTooLongIsUnavailable(t *testing.T) {
	r := startRun(t)
	err := sqlite.InTx(t.Context(), r.run, func(*sql.Tx) error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := r.Start(ctx, r.session, batch(t, 1)); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("start: %v, want ErrUnavailable", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	startFinish(t, r.Store, r.session, 1)
}

func TestStatementEndsWithItsContext(t *testing.T) {
	r := startRun(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := r.RunStatements(ctx, r.run, script("INSERT INTO sales (amount) VALUES (1)",
		"INSERT INTO sales (amount) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL "+
			"SELECT i + 1 FROM n) SELECT max(i) FROM n"))
	if !errors.Is(err, storage.ErrUnavailable) {
		t.Fatalf("%v, want ErrUnavailable", err)
	}
	r.expect(t, jobs.Running, 0)
	startFinish(t, r.Store, r.session, 1)
}

func TestWriteWaitsForAnotherProcess(t *testing.T) {
	path := t.TempDir() + "/holdfast.db"
	s := openAt(t, path)
	session := openSession(t, s)
	tool, err := sqlite.Open(t.Context(), path, sqlite.Options{BusyTimeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer tool.Close()
	tx, err := tool.Writer().Begin() // immediate: it holds the file's write lock
	if err != nil {
		t.Fatal(err)
	}
	started, requests := make(chan error, 1), batch(t, 1)
	go func() {
		_, err := s.Start(context.Background(), session, requests)
		started <- err
	}()
	select {
	case err := <-started:
		t.Errorf("started while another process writes: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-started; err != nil {
		t.Error(err)
	}
}

func TestTxOfEitherStore(t *testing.T) {
	s := open(t)
	session := openSession(t, s)
	jobstest.TestTx(t, func() *jobs.Run {
		request := batch(t, 1)[0]
		results, err := s.Start(t.Context(), session, []storage.StartRequest{request})
		if err != nil || results[0].Outcome != storage.StartGranted {
			t.Fatalf("start %+v (%v)", results, err)
		}
		return jobstest.StoredRun(s, request, results[0].Token)
	}, func(run *jobs.Run) jobs.State {
		record, err := s.Run(t.Context(), run.ID)
		if err != nil {
			t.Fatal(err)
		}
		return record.State
	}, func(run *jobs.Run) {
		if err := s.Revoke(t.Context(), run.Token, jobs.Lost, reasons.ClaimLost); err != nil {
			t.Fatal(err)
		}
	})
}
