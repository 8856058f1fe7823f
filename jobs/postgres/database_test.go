package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// newDatabase returns a database of jobs with a table log and, unless it is unfenced, the tables of
// the fence.
func newDatabase(t *testing.T, unfenced bool) *Database {
	t.Helper()
	if server == nil {
		t.Skip("needs PostgreSQL: run without -short")
	}
	d, err := OpenDatabase(t.Context(), DatabaseOptions{URL: server.Database(t),
		MaxConnections: 4, Unfenced: unfenced, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := d.pool.Exec(t.Context(), "CREATE TABLE log (token bigint)"); err != nil {
		t.Fatal(err)
	}
	if unfenced {
		return d
	}
	for name, err := range map[string]error{
		"check": d.Check(t.Context()),
		"InTx":  d.InTx(t.Context(), fencedRun(d, 5), func(jobs.Tx) error { return nil }),
		"CompleteInTx": d.CompleteInTx(t.Context(), fencedRun(d, 5),
			func(jobs.Tx) error { return nil }),
	} {
		if err == nil || !strings.Contains(err.Error(), "scheduler fence install") {
			t.Errorf("%s: got %v for a database without a fence, want the command", name, err)
		}
	}
	if err := d.InstallFence(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

// tokens returns the rows of the table log.
func (d *Database) tokens(t *testing.T) []int64 {
	t.Helper()
	var tokens []int64
	if err := d.pool.QueryRow(t.Context(),
		"SELECT coalesce(array_agg(token ORDER BY token), '{}') FROM log").
		Scan(&tokens); err != nil {
		t.Fatal(err)
	}
	return tokens
}

// fencedRun returns a run that locks public/orders in a database.
func fencedRun(d *Database, token jobs.Token) *jobs.Run {
	return jobs.Run{ID: uuid.New(), Job: "rollup", Key: uuid.NewString(),
		ScheduledAt: time.Unix(1, 0), Attempt: 1, Token: token,
	}.With(attempt.NewKey(), &storage.Attempt{Store: d,
		Cluster: uuid.UUID{1}, Locks: []storage.Lock{{Key: "table:warehouse:public/orders"}},
		NewLog: zerolog.Nop, Output: output.NewTail(output.Max)})
}

var insertToken = storage.Script{Statements: []storage.Statement{{
	SQL:   "INSERT INTO log VALUES (@token)",
	Named: map[string]storage.NamedArg{"token": {Value: int64(5), Type: "bigint"}}}}}

// TestStatementsInAnotherDatabase executes the statements of one firing twice, and those of an
// older run.
func TestStatementsInAnotherDatabase(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, false)
	if err := d.Check(t.Context()); err != nil {
		t.Error(err)
	}
	run := fencedRun(d, 5)
	rows, err := d.RunStatements(t.Context(), run, insertToken)
	if err != nil || !slices.Equal(rows, []int64{1}) {
		t.Fatalf("got %d rows, %v, want 1", rows, err)
	}
	next := fencedRun(d, 6)
	next.Key, next.Attempt = run.Key, 2
	if rows, err := d.RunStatements(t.Context(), next, insertToken); err != nil || len(rows) > 0 {
		t.Errorf("got %d rows, %v from a further attempt, want none", rows, err)
	}
	if got := next.OutputText(); !strings.Contains(got, "an earlier attempt has committed") {
		t.Errorf("got the output %q, want the reason", got)
	}
	if got := d.tokens(t); !slices.Equal(got, []int64{5}) {
		t.Errorf("got the rows %d, want one", got)
	}
	if err := d.InTx(t.Context(), fencedRun(d, 7), func(tx jobs.Tx) error {
		_, err := tx.Exec(t.Context(), "INSERT INTO log VALUES ($1)", 7)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.RunStatements(t.Context(), fencedRun(d, 4), insertToken); !errors.Is(err,
		storage.ErrSuperseded) {
		t.Errorf("got %v from an older run, want ErrSuperseded", err)
	}
	if got := d.tokens(t); !slices.Equal(got, []int64{5, 7}) {
		t.Errorf("got the rows %d, want those of the runs with tokens 5 and 7", got)
	}
	if err := d.PruneFence(t.Context(), uuid.UUID{1}, 0); err != nil {
		t.Error(err)
	}
}

// TestInTxRepeats checks that InTx leaves no row in commits: a run may have several transactions.
func TestInTxRepeats(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, false)
	run := fencedRun(d, 5)
	for range 2 {
		if err := d.InTx(t.Context(), run, func(tx jobs.Tx) error {
			_, err := tx.Exec(t.Context(), "INSERT INTO log VALUES (5)")
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if got := d.tokens(t); !slices.Equal(got, []int64{5, 5}) {
		t.Errorf("got the rows %d, want two", got)
	}
}

// TestHandlersCannotLeaveTheTransaction ends the transaction in a handler.
func TestHandlersCannotLeaveTheTransaction(t *testing.T) {
	t.Parallel()
	for _, unfenced := range []bool{false, true} {
		d := newDatabase(t, unfenced)
		for _, end := range []string{"COMMIT", "COMMIT; BEGIN"} {
			for name, inTx := range map[string]func(context.Context, *jobs.Run,
				func(tx jobs.Tx) error) error{"InTx": d.InTx, "CompleteInTx": d.CompleteInTx} {
				err := inTx(t.Context(), fencedRun(d, 5), func(tx jobs.Tx) error {
					if _, err := tx.Exec(t.Context(), end); err != nil {
						return err
					}
					_, err := tx.Exec(t.Context(), "INSERT INTO log VALUES (5)")
					return err
				})
				if !errors.Is(err, ErrTransactionControl) {
					t.Errorf("%s in %s: got %v, want ErrTransactionControl", end, name, err)
				}
			}
		}
	}
}

// TestUnfencedDatabase checks that a database without a fence needs no tables of the fence.
func TestUnfencedDatabase(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, true)
	if err := d.Check(t.Context()); err != nil {
		t.Error(err)
	}
	for _, token := range []jobs.Token{6, 5} {
		if _, err := d.RunStatements(t.Context(), fencedRun(d, token), insertToken); err != nil {
			t.Error(err)
		}
	}
	if err := d.PruneFence(t.Context(), uuid.UUID{1}, 0); err != nil {
		t.Error(err)
	}
}
