package holdfasttest_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/holdfasttest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/postgres"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

type regionParams struct {
	Region string `json:"region"`
}

func (p regionParams) Validate() error {
	if p.Region == "" {
		return &jobs.ParamsError{Problems: []jobs.ParamProblem{
			{Key: "region", Message: "found nothing, expected a region"}}}
	}
	return nil
}

// addRegion works on both stores.
func addRegion(ctx context.Context, run *jobs.Run, p regionParams) error {
	return run.CompleteInTx(ctx, func(tx jobs.Tx) error {
		run.Log().Info().Str("region", p.Region).Msg("region added")
		_, err := tx.Exec(ctx, "INSERT INTO regions (name) VALUES ($1)", p.Region)
		return errors.Join(err, run.SetResult(p), run.Save(p.Region))
	})
}

const createRegions = "CREATE TABLE regions (name text PRIMARY KEY)"

// regions returns the names in the table of a SQLite database.
func regions(t *testing.T, db *sql.DB) string {
	t.Helper()
	var names string
	if err := db.QueryRowContext(t.Context(), `SELECT coalesce(group_concat(name), '') FROM
		(SELECT name FROM regions ORDER BY name)`).Scan(&names); err != nil {
		t.Fatal(err)
	}
	return names
}

// TestCompletedRunHasNoFurtherTransactions checks the errors of fenced transactions after the one
// that completed the run, and that the output has the error of the handler.
func TestCompletedRunHasNoFurtherTransactions(t *testing.T) {
	nothing := func(jobs.Tx) error { return nil }
	a := holdfasttest.Work(t, func(ctx context.Context, run *jobs.Run, _ struct{}) error {
		if err := run.CompleteInTx(ctx, nothing); err != nil {
			t.Error(err)
		}
		return errors.Join(run.InTx(ctx, nothing), run.CompleteInTx(ctx, nothing))
	}, struct{}{}).Expect(jobs.Succeeded)
	const want = "fenced transaction: the run is already completed: superseded"
	if got := strings.Count(a.Output, want); got != 2 || a.Commits != 1 {
		t.Errorf("got the output %q and %d commits, want %q twice and 1 commit", a.Output,
			a.Commits, want)
	}
}

func TestWorkOnSQLite(t *testing.T) {
	db := holdfasttest.SQLite(t, createRegions)
	a := holdfasttest.Work(t, addRegion, regionParams{"north"}, holdfasttest.WithSQLite(db)).
		Expect(jobs.Succeeded)
	if got := regions(t, db); got != "north" {
		t.Errorf("got the regions %q, want north", got)
	}
	var result regionParams
	var saved string
	a.DecodeResult(&result).DecodeSaved(&saved)
	if result.Region != "north" || saved != "north" || a.Commits != 1 || !a.CompletedInTx {
		t.Errorf("got %+v with the result %v and the saved state %q", a, result, saved)
	}
	expectFailure(t, func(tb testing.TB) {
		holdfasttest.Work(tb, addRegion, regionParams{"north"}, holdfasttest.WithSQLite(db)).
			Expect(jobs.Succeeded)
	}, `attempt of job "test": got failed: fenced transaction: `, "UNIQUE constraint failed",
		", want succeeded\noutput:\n\t", "region added region=north")
}

func TestWorkRollsBackWhatFailed(t *testing.T) {
	db, broken := holdfasttest.SQLite(t, createRegions), errors.New("broken")
	fail := func(ctx context.Context, run *jobs.Run, _ struct{}) error {
		return sqlite.InTx(ctx, run, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO regions VALUES ('north')")
			return errors.Join(err, sqlite.SaveInTx(ctx, tx, run, 1), broken)
		})
	}
	a := holdfasttest.Work(t, fail, struct{}{}, holdfasttest.WithSQLite(db)).Expect(jobs.Failed)
	if !errors.Is(a.Err, broken) || a.Commits != 0 || a.Saved != nil || regions(t, db) != "" {
		t.Errorf("got %+v and the regions %q, want nothing of the transaction", a, regions(t, db))
	}
}

// TestWorkSavesWithTheTransaction checks that the state of a part stays when a later part fails.
func TestWorkSavesWithTheTransaction(t *testing.T) {
	work := func(ctx context.Context, run *jobs.Run, _ struct{}) error {
		var done int
		if known, err := run.Saved(ctx, &done); err != nil || !known {
			return errors.Join(err, errors.New("no state"))
		}
		if err := sqlite.InTx(ctx, run, func(tx *sql.Tx) error {
			return sqlite.SaveInTx(ctx, tx, run, done+1)
		}); err != nil {
			return err
		}
		return errors.New("the next part failed")
	}
	var saved int
	holdfasttest.Work(t, work, struct{}{}, holdfasttest.WithSaved(41)).Expect(jobs.Failed).
		DecodeSaved(&saved)
	if saved != 42 {
		t.Errorf("got the state %d, want 42", saved)
	}
	expectFailure(t, func(tb testing.TB) {
		holdfasttest.Work(tb, work, struct{}{}).DecodeSaved(&saved)
	}, "got no saved state, want one")
}

func TestWorkChecksParams(t *testing.T) {
	expectFailure(t, func(tb testing.TB) { holdfasttest.Work(tb, addRegion, regionParams{}) },
		"call the handler: params: region: found nothing, expected a region")
}

// TestWorkJudgesAsAReplica checks the outcome of each way in which an attempt can end.
func TestWorkJudgesAsAReplica(t *testing.T) {
	untilItEnds := func(ctx context.Context, _ *jobs.Run, _ any) error {
		<-ctx.Done()
		return ctx.Err()
	}
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(jobs.ErrCancelled)
	for name, c := range map[string]struct {
		handler func(context.Context, *jobs.Run, any) error
		options []holdfasttest.WorkOption
		state   jobs.State
		reason  jobs.Reason
	}{
		"panic": {func(context.Context, *jobs.Run, any) error { panic("oh") }, nil, jobs.Failed,
			reasons.Panic},
		"timeout": {untilItEnds, []holdfasttest.WorkOption{
			holdfasttest.WithTimeout(time.Millisecond)}, jobs.TimedOut, reasons.Timeout},
		"cancel": {untilItEnds, []holdfasttest.WorkOption{holdfasttest.WithContext(cancelled)},
			jobs.Cancelled, reasons.Cancelled},
		"lost claim": {untilItEnds, []holdfasttest.WorkOption{
			holdfasttest.WithClaimLostAfter(0)}, jobs.Lost, reasons.ClaimLost},
	} {
		a := holdfasttest.Work(t, c.handler, nil, c.options...).Expect(c.state, c.reason)
		if a.Err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

// TestWorkLosesTheClaim checks that no fenced transaction commits after the claim is lost.
func TestWorkLosesTheClaim(t *testing.T) {
	db := holdfasttest.SQLite(t, createRegions)
	addThree := func(ctx context.Context, run *jobs.Run, _ any) error {
		for _, name := range []string{"a", "b", "c"} {
			err := run.InTx(context.WithoutCancel(ctx), func(tx jobs.Tx) error {
				_, err := tx.Exec(context.WithoutCancel(ctx), "INSERT INTO regions VALUES ($1)",
					name)
				return err
			})
			if err != nil {
				if !errors.Is(context.Cause(ctx), jobs.ErrClaimLost) {
					t.Errorf("got the cause %v, want ErrClaimLost", context.Cause(ctx))
				}
				return err
			}
		}
		return nil
	}
	a := holdfasttest.Work(t, addThree, nil, holdfasttest.WithSQLite(db),
		holdfasttest.WithClaimLostAfter(2)).Expect(jobs.Lost, reasons.ClaimLost)
	if got := regions(t, db); got != "a,b" || a.Commits != 2 ||
		!errors.Is(a.Err, storage.ErrSuperseded) {
		t.Errorf("got %q and %+v, want a,b and ErrSuperseded", got, a)
	}
}

func TestWorkSetsTheRun(t *testing.T) {
	at := time.Date(2026, 3, 29, 2, 30, 0, 0, time.FixedZone("CEST", 7200))
	want := jobs.Run{Job: "rollup", ScheduledAt: at, Key: "k", Attempt: 2, Recovery: 1, Token: 7}
	look := func(ctx context.Context, run *jobs.Run, _ any) error {
		previous, err := run.PreviousScheduledAt(ctx)
		if run.Job != "rollup" || !run.ScheduledAt.Equal(at) || run.ScheduledAt.Location() !=
			time.UTC || run.Key != "k" || run.Attempt != 2 || run.Recovery != 1 ||
			run.Token != 7 || !previous.Equal(at.Add(-time.Hour)) {
			t.Errorf("got %+v after %s (%v)", run, previous, err)
		}
		return err
	}
	holdfasttest.Work(t, look, nil, holdfasttest.WithRun(want),
		holdfasttest.WithPreviousScheduledAt(at.Add(-time.Hour))).Expect(jobs.Succeeded)
}

// TestWorkInABubble checks that a handler on SQLite works in a bubble of testing/synctest.
func TestWorkInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, start := holdfasttest.SQLite(t, createRegions), time.Now()
		slow := func(ctx context.Context, run *jobs.Run, p regionParams) error {
			time.Sleep(time.Hour)
			return addRegion(ctx, run, p)
		}
		holdfasttest.Work(t, slow, regionParams{"north"}, holdfasttest.WithSQLite(db)).
			Expect(jobs.Succeeded)
		if time.Since(start) != time.Hour || regions(t, db) != "north" {
			t.Errorf("got %q after %s", regions(t, db), time.Since(start))
		}
	})
}

// TestWorkOnPostgres checks that the functions of package postgres use the transaction of the test,
// and that nothing is left after it.
func TestWorkOnPostgres(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), database(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	t.Run("transaction", func(t *testing.T) {
		workOnPostgres(t, holdfasttest.BeginTx(t, pool, createRegions))
	})
	var left bool
	if err := pool.QueryRow(t.Context(),
		"SELECT to_regclass('regions') IS NOT NULL").Scan(&left); err != nil || left {
		t.Errorf("the table of the test is left: %v, %v", left, err)
	}
}

func workOnPostgres(t *testing.T, tx pgx.Tx) {
	ctx, on := t.Context(), holdfasttest.WithTx(tx)
	holdfasttest.Work(t, addRegion, regionParams{"north"}, on).Expect(jobs.Succeeded)
	// the error aborts only the savepoint of the handler
	expectFailure(t, func(tb testing.TB) {
		holdfasttest.Work(tb, addRegion, regionParams{"north"}, on).Expect(jobs.Succeeded)
	}, "duplicate key value")
	parts := func(ctx context.Context, run *jobs.Run, _ any) error {
		if err := postgres.InTx(ctx, run, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO regions VALUES ('south')")
			return errors.Join(err, postgres.SaveInTx(ctx, tx, run, 1))
		}); err != nil {
			return err
		}
		return postgres.CompleteInTx(ctx, run, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO regions VALUES ('west')")
			return errors.Join(err, postgres.Fence(ctx, tx, run))
		})
	}
	a := holdfasttest.Work(t, parts, nil, on).Expect(jobs.Succeeded)
	if a.Commits != 2 || !a.CompletedInTx || string(a.Saved) != "1" {
		t.Errorf("got %+v, want two commits and the state 1", a)
	}
	lost := holdfasttest.Work(t, parts, nil, on, holdfasttest.WithClaimLostAfter(0)).
		Expect(jobs.Lost, reasons.ClaimLost)
	if !errors.Is(lost.Err, storage.ErrSuperseded) {
		t.Errorf("got %v, want ErrSuperseded", lost.Err)
	}
	var names string
	if err := tx.QueryRow(ctx, "SELECT string_agg(name, ',' ORDER BY name) FROM regions").
		Scan(&names); err != nil || names != "north,south,west" {
		t.Errorf("got the regions %q (%v), want north,south,west", names, err)
	}
}

// TestWorkAtAURL checks that a statement that ends the transaction of the test is refused.
func TestWorkAtAURL(t *testing.T) {
	url := database(t)
	commits := func(ctx context.Context, run *jobs.Run, _ any) error {
		return postgres.InTx(ctx, run, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "COMMIT")
			return err
		})
	}
	a := holdfasttest.Work(t, commits, nil, holdfasttest.WithTx(holdfasttest.BeginTxAt(t, url))).
		Expect(jobs.Failed)
	if !errors.Is(a.Err, postgres.ErrTransactionControl) {
		t.Errorf("got %v, want ErrTransactionControl", a.Err)
	}
}
