package postgres

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// When PostgreSQL refuses a commit, the job has failed. Its claim still exists, and the run is not
// superseded.
func TestRefusedCommitIsNotSuperseded(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.exec("CREATE TABLE public.totals (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	session := s.session(s.a, "a")
	twice := func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "INSERT INTO public.totals VALUES (1), (1)")
		return err
	}
	for name, within := range map[string]func(*jobs.Run) error{
		"InTx":         func(run *jobs.Run) error { return InTx(t.Context(), run, twice) },
		"CompleteInTx": func(run *jobs.Run) error { return CompleteInTx(t.Context(), run, twice) },
		"statements": func(run *jobs.Run) error {
			_, err := s.a.RunStatements(t.Context(), run,
				script("INSERT INTO public.totals VALUES (1), (1)"))
			return err
		},
	} {
		run := s.granted(s.a, session, request(t, name, name))
		err := within(run)
		const uniqueViolation = "23505"
		if codeOf(err) != uniqueViolation || errors.Is(err, storage.ErrSuperseded) ||
			errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("%s: got error %v, want the unique violation", name, err)
		}
		if state := s.state(run.ID); state != "running" {
			t.Errorf("%s: run is %s", name, state)
		}
	}
}

// A statement may end the transaction although its first word does not show it, and begin another
// one. The statements after it would run outside the fence.
func TestTransactionThatAStatementEndsIsRefused(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.exec("CREATE TABLE public.totals (n int)")
	session := s.session(s.a, "a")
	for _, sql := range []string{"SELECT 1; COMMIT", "SELECT 1; COMMIT AND CHAIN",
		"SELECT 1; ROLLBACK AND CHAIN", "COMMIT; BEGIN"} {
		ends := func(tx pgx.Tx) error {
			// without arguments it may be several commands
			if _, err := tx.Exec(t.Context(), sql); err != nil ||
				tx.Conn().PgConn().TxStatus() == 'I' {
				return err
			}
			_, err := tx.Exec(t.Context(), "INSERT INTO public.totals VALUES (1)")
			return err
		}
		for name, within := range map[string]func(*jobs.Run) error{
			"InTx": func(run *jobs.Run) error { return InTx(t.Context(), run, ends) },
			"CompleteInTx": func(run *jobs.Run) error {
				return CompleteInTx(t.Context(), run, ends)
			},
		} {
			run := s.granted(s.a, session, request(t, name+sql, uuid.NewString()))
			if err := within(run); !errors.Is(err, ErrTransactionControl) {
				t.Errorf("%s, %q: got error %v, want ErrTransactionControl", name, sql, err)
			}
			if state := s.state(run.ID); state != "running" {
				t.Errorf("%s, %q: run is %s", name, sql, state)
			}
		}
	}
	if n := query[int](s, "SELECT count(*) FROM public.totals"); n != 0 {
		t.Errorf("%d rows were written outside the fence", n)
	}
}

// A restored database draws tokens again. A run from before the restore must not pass for the run
// that has its token now.
func TestFenceDistinguishesRunsOfOneToken(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	run := s.granted(s.a, s.session(s.a, "a"), request(t, "job", "orders"))
	s.exec("UPDATE holdfast.claims SET run = gen_random_uuid()")
	for name, err := range map[string]error{
		"InTx": InTx(t.Context(), run, func(pgx.Tx) error {
			t.Error("fence check: got success, want an error")
			return nil
		}),
		"CompleteInTx": CompleteInTx(t.Context(), run, func(pgx.Tx) error {
			t.Error("fence check: got success, want an error")
			return nil
		}),
	} {
		if !errors.Is(err, storage.ErrSuperseded) {
			t.Errorf("%s: got error %v, want ErrSuperseded", name, err)
		}
	}
}

func TestTxOfEitherStore(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	n := 0
	jobstest.TestTx(t, func() *jobs.Run {
		n++
		name := fmt.Sprint("job", n)
		return s.granted(s.a, session, request(t, name, name))
	}, func(run *jobs.Run) jobs.State { return jobs.State(s.state(run.ID)) },
		func(run *jobs.Run) {
			if err := s.a.Revoke(t.Context(), run.Token, jobs.Lost,
				reasons.ClaimLost); err != nil {
				t.Fatal(err)
			}
		})
}
