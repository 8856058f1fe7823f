package holdfasttest_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/holdfasttest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/fence"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/retry"
)

// withWarehouse is the configuration of a program with a database of jobs.
func withWarehouse() holdfast.Option {
	config := configs.Defaults()
	config.Databases = map[string]configs.JobDatabase{
		"warehouse": {URL: configs.NewSecret("postgres://warehouse.example/warehouse")}}
	return holdfast.WithConfig(&config)
}

// inWarehouse returns a job that adds a region in the warehouse at each scheduled time.
func inWarehouse(handler run) holdfast.Job[struct{}] {
	return holdfast.Job[struct{}]{Name: "load", Schedule: schedule.Cron("*/5 * * * *"),
		Database: "warehouse", Writes: []string{"regions"}, Run: handler,
		Retry: retry.Policy{Attempts: 2, Delay: time.Second}}
}

func addNorth(ctx context.Context, run *jobs.Run, _ struct{}) error {
	return run.CompleteInTx(ctx, func(tx jobs.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO regions VALUES ('north')")
		return err
	})
}

// TestJobsInAnotherDatabase checks which database the transactions of a job have, its lock, and an
// outage of the database.
func TestJobsInAnotherDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here := every(nothing)
		here.Writes = []string{"regions"}
		s := holdfasttest.New(t, withWarehouse(), holdfast.WithJobs(inWarehouse(addNorth), here))
		s.Exec(createRegions)
		s.ExecIn("warehouse", createRegions)
		s.Fire("load").Expect(jobs.Succeeded)
		if there := regions(t, s.DBOf("warehouse")); there != "north" || regions(t, s.DB()) != "" {
			t.Errorf("got %q in the warehouse and %q in the store", there, regions(t, s.DB()))
		}
		hold := s.Hold("regions") // of the store
		s.Fire("rollup").Expect(jobs.Skipped, reasons.LockHeld)
		hold.Release()
		s.ExecIn("warehouse", "DELETE FROM regions")
		s.OutageOf("warehouse", 9*time.Minute)
		all := s.Runs("load")
		all[len(all)-1].Expect(jobs.Skipped, reasons.DatabaseUnavailable)
		s.Fire("load").Expect(jobs.Succeeded)
		expectFailure(t, func(tb testing.TB) { holdfasttest.On(s, tb).DBOf("warehose") },
			`unknown database "warehose", expected one of ["warehouse"]`)
	})
}

// TestAnotherDatabaseCommitsOnce checks that a further attempt does not repeat the transaction of
// one that has committed, and that a handler with two of them is a mistake.
func TestAnotherDatabaseCommitsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := inWarehouse(func(ctx context.Context, run *jobs.Run, _ struct{}) error {
			if err := addNorth(ctx, run, struct{}{}); err != nil {
				return err
			}
			if err := addNorth(ctx, run, struct{}{}); !errors.Is(err, fence.ErrStepRepeated) {
				t.Errorf("got %v, want ErrStepRepeated", err)
			}
			if run.Attempt == 1 {
				return errors.New("after the commit")
			}
			return nil
		})
		s := holdfasttest.New(t, withWarehouse(), holdfast.WithJobs(job))
		s.ExecIn("warehouse", createRegions)
		r := s.Fire("load").Expect(jobs.Succeeded)
		if r.Attempt != 2 || !strings.Contains(r.Output, "an earlier attempt has committed") {
			t.Errorf("got attempt %d with the output %q", r.Attempt, r.Output)
		}
	})
}

// TestAnotherDatabaseTellsActorsApart triggers a job twice with the same key for the same time.
func TestAnotherDatabaseTellsActorsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := inWarehouse(func(ctx context.Context, run *jobs.Run, _ struct{}) error {
			return run.CompleteInTx(ctx, func(tx jobs.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO regions VALUES ($1)", run.KeyActor)
				return err
			})
		})
		s := holdfasttest.New(t, withWarehouse(), holdfast.WithJobs(job))
		s.ExecIn("warehouse", createRegions)
		at := time.Now()
		for _, actor := range []string{"ann", "bob"} {
			s.Trigger(holdfast.Trigger[any]{Job: "load", Actor: actor, Key: "k", At: at}).
				Expect(jobs.Succeeded)
		}
		if got := regions(t, s.DBOf("warehouse")); got != "ann,bob" {
			t.Errorf("got %q, want a region of each actor", got)
		}
	})
}

// TestAnotherDatabaseLosesARun checks that a transaction fails while the database is down.
func TestAnotherDatabaseLosesARun(t *testing.T) {
	var failed error
	synctest.Test(t, func(t *testing.T) {
		job := inWarehouse(func(ctx context.Context, run *jobs.Run, _ struct{}) error {
			time.Sleep(time.Minute)
			failed = run.InTx(ctx, func(jobs.Tx) error { return nil })
			return failed
		})
		job.Retry = retry.Policy{Attempts: 1}
		s := holdfasttest.New(t, withWarehouse(), holdfast.WithJobs(job))
		r := s.Start("load")
		s.OutageOf("warehouse", 2*time.Minute)
		r.Wait().Expect(jobs.Failed)
	})
	if failed == nil || !strings.Contains(failed.Error(), "database warehouse is not available") {
		t.Errorf("got %v, want the outage", failed)
	}
}

// TestStatementsInAnotherDatabase runs a job of the handler sql.
func TestStatementsInAnotherDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.New(t, withWarehouse(), holdfast.WithJobs(holdfast.Job[map[string]string]{
			Name: "load", Schedule: schedule.Cron("*/5 * * * *"), Handler: "sql",
			Database: "warehouse", Writes: []string{"regions"},
			Params: map[string]string{"statement": "INSERT INTO regions VALUES ('north')"}}))
		s.ExecIn("warehouse", createRegions)
		var result storage.RowsAffected
		s.Fire("load").Expect(jobs.Succeeded).DecodeResult(&result)
		if got := regions(t, s.DBOf("warehouse")); got != "north" || len(result.Rows) != 1 {
			t.Errorf("got %q and the result %v", got, result)
		}
	})
}

// TestWorkInAnotherDatabase checks that the run's own transaction does not end the run, and that
// functions for the store refuse it.
func TestWorkInAnotherDatabase(t *testing.T) {
	db := holdfasttest.SQLite(t, createRegions)
	a := holdfasttest.Work(t, addNorth, struct{}{}, holdfasttest.WithDatabase(),
		holdfasttest.WithSQLite(db)).Expect(jobs.Succeeded)
	if a.CompletedInTx || a.Commits != 1 || regions(t, db) != "north" {
		t.Errorf("got %+v and %q, want one commit that does not end the run", a, regions(t, db))
	}
	wrong := func(ctx context.Context, run *jobs.Run, _ struct{}) error {
		return sqlite.InTx(ctx, run, func(*sql.Tx) error { return nil })
	}
	holdfasttest.Work(t, wrong, struct{}{}, holdfasttest.WithDatabase()).Expect(jobs.Failed)
	holdfasttest.Work(t, wrong, struct{}{}).Expect(jobs.Succeeded)
}

// TestJobsInAnotherPostgres checks that the transaction of the test has the tables of all
// databases, and that functions for the store refuse such a run.
func TestJobsInAnotherPostgres(t *testing.T) {
	url := database(t)
	synctest.Test(t, func(t *testing.T) {
		tx := holdfasttest.BeginTxAt(t, url, createRegions)
		s := holdfasttest.NewWithTx(t, tx, withWarehouse(),
			holdfast.WithJobs(inWarehouse(addNorth)))
		s.ExecIn("warehouse", "INSERT INTO regions VALUES ('south')")
		s.Fire("load").Expect(jobs.Succeeded)
		var names string
		if err := tx.QueryRow(t.Context(),
			"SELECT string_agg(name, ',' ORDER BY name) FROM regions").Scan(&names); err != nil || names != "north,south" || s.DBOf("warehouse") != nil {
			t.Errorf("got %q (%v)", names, err)
		}
	})
}

// TestWorkWithItsOwnTransaction checks a handler that commits its transaction itself and returns
// all errors of package fence.
func TestWorkWithItsOwnTransaction(t *testing.T) {
	pool := fencedPool(t)
	load := func(ctx context.Context, run *jobs.Run, _ struct{}) error {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		if err := fence.InTx(ctx, run, fence.Pgx(tx)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "INSERT INTO regions VALUES ('north')"); err != nil {
			return err
		}
		return tx.Commit(ctx)
	}
	at := time.Now()
	for attempt := 1; attempt <= 2; attempt++ {
		a := holdfasttest.Work(t, load, struct{}{},
			holdfasttest.WithRun(jobs.Run{ScheduledAt: at, Attempt: attempt}),
			holdfasttest.WithFence(uuid.MustParse("01a1fecc-ef57-7d76-aac5-e8f353379cd4"),
				[]string{"regions"}, nil)).Expect(jobs.Succeeded)
		if again := strings.Contains(a.Output, fence.ErrCommitted.Error()); a.Err != nil ||
			again != (attempt == 2) {
			t.Errorf("attempt %d: got %v and the output %q", attempt, a.Err, a.Output)
		}
	}
	var rows int
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM regions").Scan(&rows); err != nil ||
		rows != 1 {
		t.Errorf("got %d rows (%v), want one", rows, err)
	}
}

// fencedPool returns connections to a database with the tables of the fence and a table regions.
func fencedPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), database(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), createRegions)
		return errors.Join(err, fence.Install(t.Context(), fence.Pgx(tx)))
	}); err != nil {
		t.Fatal(err)
	}
	return pool
}

// TestWorkWithFence checks that functions of package fence see attempts and newer runs.
func TestWorkWithFence(t *testing.T) {
	pool := fencedPool(t)
	calls := 0
	load := func(ctx context.Context, run *jobs.Run, _ struct{}) error {
		return fence.Do(ctx, run, pool, func(tx pgx.Tx) error {
			calls++
			_, err := tx.Exec(ctx, "INSERT INTO regions VALUES ('north')")
			return err
		})
	}
	at := time.Now()
	work := func(token jobs.Token, at time.Time) *holdfasttest.Attempt {
		return holdfasttest.Work(t, load, struct{}{},
			holdfasttest.WithRun(jobs.Run{ScheduledAt: at, Token: token}),
			holdfasttest.WithFence(uuid.MustParse("01a1fecc-ef57-7d76-aac5-e8f353379cd3"),
				[]string{"regions"}, []string{"sales"}))
	}
	work(7, at).Expect(jobs.Succeeded)
	work(7, at).Expect(jobs.Succeeded) // a further attempt
	if calls != 1 {
		t.Errorf("got %d calls, want one for both attempts", calls)
	}
	older := work(6, at.Add(time.Minute)).Expect(jobs.Lost)
	if !errors.Is(older.Err, storage.ErrSuperseded) {
		t.Errorf("got %v, want ErrSuperseded", older.Err)
	}
	without := holdfasttest.Work(t, load, struct{}{}).Expect(jobs.Failed)
	if !errors.Is(without.Err, fence.ErrNoStore) ||
		!strings.Contains(without.Err.Error(), "holdfasttest.WithFence") {
		t.Errorf("got %v, want ErrNoStore with the name of the option", without.Err)
	}
}
