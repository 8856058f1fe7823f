package fence

import (
	"context"
	"database/sql"
	"errors"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestFiringCommitsOnce repeats a committed transaction in a further attempt, in a recovery, and in
// another firing.
func TestFiringCommitsOnce(t *testing.T) {
	onEach(t, func(t *testing.T, on *target) {
		run := newRun(clusterOf(t), 5, "public/orders")
		recovery, other, byAnn, byBob := again(run, 7), again(run, 8), again(run, 9), again(run, 10)
		recovery.ID, recovery.Recovery = uuid.New(), 1
		other.ScheduledAt = other.ScheduledAt.Add(time.Microsecond)
		byAnn.Key, byAnn.KeyActor = "by hand", "ann"
		byBob.Key, byBob.KeyActor = "by hand", "bob"
		for _, one := range []struct {
			run    *jobs.Run
			step   string
			writes bool
		}{
			{run, "", true}, {again(run, 5), "", false}, {again(run, 6), "", false},
			{recovery, "", false},
			{recovery, "second", true}, {again(recovery, 8), "second", false},
			{other, "", true}, {byAnn, "", true},
			{byBob, "", true}, {again(byBob, 11), "", false},
		} {
			before := len(on.tokens(t, "orders"))
			if err := StepSQL(t.Context(), one.run, on.db, on.dialect, one.step,
				on.writer(t, "orders", one.run.Token)); err != nil {
				t.Fatal(err)
			}
			if wrote := len(on.tokens(t, "orders")) > before; wrote != one.writes {
				t.Errorf("token %d, step %q: wrote: %t, want %t", one.run.Token, one.step, wrote,
					one.writes)
			}
		}
	})
}

// TestSupersededRunFindsItsCommit checks that a run that has committed is not called superseded in
// a further attempt.
func TestSupersededRunFindsItsCommit(t *testing.T) {
	onEach(t, func(t *testing.T, on *target) {
		run := newRun(clusterOf(t), 5, "public/orders")
		if err := on.do(t, run); err != nil {
			t.Fatal(err)
		}
		if err := on.do(t, newRun(clusterOf(t), 6, "public/orders")); err != nil {
			t.Fatal(err)
		}
		if err := InTx(t.Context(), again(run, 5), SQL(on.begin(t), on.dialect)); !errors.Is(err,
			ErrCommitted) {
			t.Errorf("got %v, want ErrCommitted", err)
		}
	})
}

// TestAttemptWaitsForTheSameFiring begins a further attempt of a reader while the transaction of
// the first one is open. Locks of readers do not wait for each other.
func TestAttemptWaitsForTheSameFiring(t *testing.T) {
	onEach(t, func(t *testing.T, on *target) {
		run := newRun(clusterOf(t), 5, "read public/orders")
		if err := on.do(t, newRun(clusterOf(t), 4, "read public/orders")); err != nil {
			t.Fatal(err) // so that the name is known
		}
		first, second := on.begin(t), on.begin(t)
		if err := InTx(t.Context(), run, SQL(first, on.dialect)); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- InTx(t.Context(), again(run, 6), SQL(second, on.dialect)) }()
		on.awaitWaiting(t, done)
		if err := first.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, ErrCommitted) {
			t.Errorf("got %v, want ErrCommitted", err)
		}
	})
}

// TestErrorRollsBack checks that a transaction that failed leaves neither effects nor a commit.
func TestErrorRollsBack(t *testing.T) {
	onEach(t, func(t *testing.T, on *target) {
		run := newRun(clusterOf(t), 5, "public/orders")
		failure := errors.New("no")
		err := DoSQL(t.Context(), run, on.db, on.dialect, func(tx *sql.Tx) error {
			return errors.Join(on.write(t.Context(), tx, "orders", 5), failure)
		})
		if !errors.Is(err, failure) || len(on.tokens(t, "orders")) != 0 {
			t.Errorf("got %v and the tokens %d, want the error and none", err,
				on.tokens(t, "orders"))
		}
		if err := DoSQL(t.Context(), again(run, 6), on.db, on.dialect,
			on.writer(t, "orders", 6)); err != nil || len(on.tokens(t, "orders")) != 1 {
			t.Errorf("got %v and the tokens %d, want the second attempt", err,
				on.tokens(t, "orders"))
		}
	})
}

// endsWithCommit matches the request of a commit. The request of PostgreSQL ends with a zero byte.
var endsWithCommit = regexp.MustCompile(`(?i)commit\x00?$`)

// TestLostReplyToCommit cuts the connection after the server has executed the commit, or before it
// has got it.
func TestLostReplyToCommit(t *testing.T) {
	for name, one := range map[string]struct {
		fate      servertest.Fate
		committed bool
	}{
		"after the commit":  {servertest.CutReply, true},
		"before the commit": {servertest.Cut, false},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, on *target) {
				broken, proxy := on.through(t)
				var cut atomic.Bool
				proxy.OnRequest(func(request []byte) servertest.Fate {
					if endsWithCommit.Match(request) && cut.CompareAndSwap(false, true) {
						return one.fate
					}
					return servertest.Pass
				})
				run := newRun(clusterOf(t), 5, "public/orders")
				on.addNames(t, run) // else the proxy cuts the connection of that transaction
				calls := 0
				err := DoSQL(t.Context(), run, broken.db, on.dialect, func(tx *sql.Tx) error {
					calls++
					return on.write(t.Context(), tx, "orders", 5)
				})
				if !cut.Load() {
					t.Fatal("the proxy saw no commit")
				}
				if committed := err == nil; committed != one.committed || calls != 1 {
					t.Errorf("got %v after %d calls, want committed: %t and one call", err, calls,
						one.committed)
				}
				if got := len(on.tokens(t, "orders")); (got == 1) != one.committed {
					t.Errorf("got %d rows, want committed: %t", got, one.committed)
				}
			})
		})
	}
}

// TestLostReplyToCommitOfNames cuts the connection after the server has executed the commit of new
// names. The job has executed nothing, so a further attempt does all of its work.
func TestLostReplyToCommitOfNames(t *testing.T) {
	onEach(t, func(t *testing.T, on *target) {
		broken, proxy := on.through(t)
		var cut atomic.Bool
		proxy.OnRequest(func(request []byte) servertest.Fate {
			if endsWithCommit.Match(request) && cut.CompareAndSwap(false, true) {
				return servertest.CutReply
			}
			return servertest.Pass
		})
		run := newRun(clusterOf(t), 5, "public/orders")
		err := DoSQL(t.Context(), run, broken.db, on.dialect, on.writer(t, "orders", 5))
		if err == nil || !strings.Contains(err.Error(), "commit of new names") ||
			len(on.tokens(t, "orders")) != 0 {
			t.Errorf("got %v and the tokens %d, want the error and none", err,
				on.tokens(t, "orders"))
		}
		if err := DoSQL(t.Context(), again(run, 6), broken.db, on.dialect,
			on.writer(t, "orders", 6)); err != nil || len(on.tokens(t, "orders")) != 1 {
			t.Errorf("second attempt: got %v and the tokens %d, want one", err,
				on.tokens(t, "orders"))
		}
	})
}

// TestSettleWaitsForALateCommit lets the commit take effect while settle waits for the rows.
func TestSettleWaitsForALateCommit(t *testing.T) {
	onEach(t, func(t *testing.T, on *target) {
		run := newRun(clusterOf(t), 5, "public/orders")
		on.addNames(t, run)
		late := make(chan *sql.Tx, 1)
		begin := func(ctx context.Context) (*opened, error) {
			return beginSQL(ctx, on.db, on.dialect, func(*sql.Tx) error { return nil })
		}
		first := true
		done := make(chan error, 1)
		go func() {
			done <- fenced(t.Context(), run, "", func(ctx context.Context) (*opened, error) {
				if !first {
					return begin(ctx)
				}
				first = false
				tx, err := on.db.BeginTx(ctx, &sql.TxOptions{Isolation: on.isolation})
				return &opened{tx: SQL(tx, on.dialect), close: func() {},
					work: func() error { return on.write(ctx, tx, "orders", 5) },
					commit: func(context.Context) error {
						late <- tx
						return errors.New("no reply")
					}}, err
			})
		}()
		tx := <-late
		on.awaitWaiting(t, done)
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("got %v, want the late commit to be found", err)
		}
	})
}

// TestEndedTransactionIsNoSuccess checks a function that commits a part of its effects, and then
// another attempt.
func TestEndedTransactionIsNoSuccess(t *testing.T) {
	onEach(t, func(t *testing.T, on *target) {
		run := newRun(clusterOf(t), 5, "public/orders")
		end := "COMMIT"
		if on.driver == "mysql" {
			end = "CREATE TABLE IF NOT EXISTS ended (n int)" // which commits
		}
		err := DoSQL(t.Context(), run, on.db, on.dialect, func(tx *sql.Tx) error {
			if err := on.write(t.Context(), tx, "orders", 5); err != nil {
				return err
			}
			_, err := tx.ExecContext(t.Context(), end)
			return err
		})
		if !errors.Is(err, ErrEnded) {
			t.Errorf("got %v, want ErrEnded", err)
		}
		err = DoSQL(t.Context(), again(run, 6), on.db, on.dialect, on.writer(t, "orders", 6))
		if got := on.tokens(t, "orders"); !errors.Is(err, ErrPartial) || len(got) != 1 {
			t.Errorf("second attempt: got %v and the tokens %d, want ErrPartial and one", err, got)
		}
	})
}

// TestEndByTheDriverIsNoSuccess checks functions that end their transaction by a method of the
// driver, and then another attempt.
func TestEndByTheDriverIsNoSuccess(t *testing.T) {
	ends := map[string]struct {
		pgx  func(tx pgx.Tx) error
		sql  func(tx *sql.Tx) error
		want error // of the second attempt
	}{
		"commit": {func(tx pgx.Tx) error { return tx.Commit(t.Context()) }, (*sql.Tx).Commit,
			ErrPartial},
		"rollback": {func(tx pgx.Tx) error { return tx.Rollback(t.Context()) },
			(*sql.Tx).Rollback, nil},
	}
	check := func(t *testing.T, do func(run *jobs.Run, end bool) error, want error) {
		t.Helper()
		run := newRun(clusterOf(t), 5, "public/orders")
		if err := do(run, true); !errors.Is(err, ErrEnded) {
			t.Errorf("got %v, want ErrEnded", err)
		}
		if err := do(again(run, 6), false); !errors.Is(err, want) {
			t.Errorf("second attempt: got %v, want %v", err, want)
		}
	}
	for name, c := range ends {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, on *target) {
				check(t, func(run *jobs.Run, end bool) error {
					return DoSQL(t.Context(), run, on.db, on.dialect, func(tx *sql.Tx) error {
						if end {
							return c.sql(tx)
						}
						return nil
					})
				}, c.want)
			})
			t.Run("pgx", func(t *testing.T) {
				pool := newPostgres(t).pool(t)
				check(t, func(run *jobs.Run, end bool) error {
					return Do(t.Context(), run, pool, func(tx pgx.Tx) error {
						if end {
							return c.pgx(tx)
						}
						return nil
					})
				}, c.want)
			})
		})
	}
}

// TestRollbackInMariaDBIsNoSuccess checks a function that goes on after a rollback of the whole
// transaction. After a deadlock the server does the same.
func TestRollbackInMariaDBIsNoSuccess(t *testing.T) {
	on := newMariaDB(t)
	err := DoSQL(t.Context(), newRun(clusterOf(t), 5, "public/orders"), on.db, on.dialect,
		func(tx *sql.Tx) error {
			_, err := tx.ExecContext(t.Context(), "ROLLBACK")
			return errors.Join(err, on.write(t.Context(), tx, "orders", 5))
		})
	if !errors.Is(err, ErrEnded) {
		t.Errorf("got %v, want ErrEnded", err)
	}
}

// TestRollbackWithoutSavepointsIsNoSuccess checks a function that rolls back where there are no
// savepoints, as in Redshift.
func TestRollbackWithoutSavepointsIsNoSuccess(t *testing.T) {
	on := newPostgres(t)
	on.dialect.ended = nil
	run := newRun(clusterOf(t), 5, "public/orders")
	err := DoSQL(t.Context(), run, on.db, on.dialect, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "ROLLBACK")
		return err
	})
	if !errors.Is(err, ErrEnded) {
		t.Errorf("got %v, want ErrEnded", err)
	}
	err = DoSQL(t.Context(), again(run, 6), on.db, on.dialect, on.writer(t, "orders", 6))
	if got := on.tokens(t, "orders"); err != nil || len(got) != 1 {
		t.Errorf("second attempt: got %v and the tokens %d, want one", err, got)
	}
}

// TestStepIsNotRepeatedInAnAttempt checks that the second transaction of an attempt is not taken
// for the first.
func TestStepIsNotRepeatedInAnAttempt(t *testing.T) {
	onEach(t, func(t *testing.T, on *target) {
		run := newRun(clusterOf(t), 5, "public/orders")
		for _, want := range []error{nil, ErrStepRepeated} {
			if err := DoSQL(t.Context(), run, on.db, on.dialect,
				on.writer(t, "orders", 5)); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		}
		if err := StepSQL(t.Context(), run, on.db, on.dialect, "second",
			on.writer(t, "orders", 5)); err != nil {
			t.Error(err)
		}
		if got := on.tokens(t, "orders"); len(got) != 2 {
			t.Errorf("got the tokens %d, want two", got)
		}
	})
}

// TestOwnTransactionOfAHandler checks what a handler that commits its own transaction gets in the
// same attempt, and in a further one.
func TestOwnTransactionOfAHandler(t *testing.T) {
	inTx := func(step string) func(t *testing.T, on *target, run *jobs.Run) error {
		return func(t *testing.T, on *target, run *jobs.Run) error {
			tx := on.begin(t)
			if err := StepInTx(t.Context(), run, SQL(tx, on.dialect), step); err != nil {
				return errors.Join(err, tx.Rollback())
			}
			return tx.Commit()
		}
	}
	rolledBack := func(t *testing.T, on *target, run *jobs.Run) error {
		tx := on.begin(t)
		return errors.Join(InTx(t.Context(), run, SQL(tx, on.dialect)), tx.Rollback())
	}
	do := func(t *testing.T, on *target, run *jobs.Run) error { return on.do(t, run) }
	type transaction = func(t *testing.T, on *target, run *jobs.Run) error
	for name, c := range map[string]struct {
		first, second transaction
		same, further error // of the second in the same attempt, and in a further one
	}{
		"InTx twice":                 {inTx(""), inTx(""), ErrStepRepeated, ErrCommitted},
		"InTx and Do":                {inTx(""), do, ErrStepRepeated, nil},
		"Do and InTx":                {do, inTx(""), ErrStepRepeated, ErrCommitted},
		"InTx and a step":            {inTx(""), inTx("a"), ErrNotLast, nil},
		"a step and InTx":            {inTx("a"), inTx(""), nil, nil},
		"two steps":                  {inTx("a"), inTx("b"), nil, nil},
		"a step twice":               {inTx("a"), inTx("a"), ErrStepRepeated, ErrStepCommitted},
		"InTx after a rollback":      {rolledBack, inTx(""), nil, nil},
		"Do after a rolled back one": {rolledBack, do, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, on *target) {
				for _, same := range []bool{true, false} {
					run := newRun(clusterOf(t), 5, "public/orders")
					if err := c.first(t, on, run); err != nil {
						t.Fatal(err)
					}
					second, want := run, c.same
					if !same {
						second, want = again(run, 5), c.further
					}
					err := c.second(t, on, second)
					if !errors.Is(err, want) || err != nil && want == nil {
						t.Errorf("same attempt %t: got %v, want %v", same, err, want)
					}
					if errors.Is(err, ErrCommitted) && want != ErrCommitted {
						t.Errorf("same attempt %t: got %v, which a run takes for a success", same,
							err)
					}
				}
			})
		})
	}
}

// TestDoUsesPgx checks the functions for pgx.
func TestDoUsesPgx(t *testing.T) {
	on := newPostgres(t)
	pool := on.pool(t)
	run := newRun(clusterOf(t), 5, "read public/sales", "public/orders")
	calls := 0
	ann, bob := again(run, 5), again(run, 5)
	ann.Key, ann.KeyActor, bob.Key, bob.KeyActor = "by hand", "ann", "by hand", "bob"
	for _, attempt := range []*jobs.Run{run, again(run, 5), ann, bob, again(bob, 5)} {
		if err := Do(t.Context(), attempt, pool, func(tx pgx.Tx) error {
			calls++
			_, err := tx.Exec(t.Context(), "INSERT INTO log (name, token) VALUES ('orders', 5)")
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if got := on.tokens(t, "orders"); calls != 3 || len(got) != 3 {
		t.Errorf("got %d calls and the tokens %d, want one for each firing", calls, got)
	}
	err := Do(t.Context(), newRun(clusterOf(t), 4, "public/orders"), pool, func(pgx.Tx) error {
		return errors.New("called")
	})
	if !errors.Is(err, storage.ErrSuperseded) {
		t.Errorf("got %v, want ErrSuperseded", err)
	}
}

// TestRunWithoutStore checks the error for runs in tests of handlers.
func TestRunWithoutStore(t *testing.T) {
	run := jobs.NewRun("rollup", time.Now(), zerolog.Nop())
	if err := InTx(t.Context(), run, Tx{}); !errors.Is(err, ErrNoStore) {
		t.Errorf("got %v, want ErrNoStore", err)
	}
}
