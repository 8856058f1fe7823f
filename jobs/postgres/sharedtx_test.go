package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// sharing are runs for one call of share, each with a table of its own: t0, t1 and so on.
type sharing struct {
	*harness
	session uuid.UUID
	runs    []*sharedRun
}

// newSharing starts one run for each script. In a statement, $t is the table of the run. The
// limits of time are long, because the machine may be busy.
func newSharing(t *testing.T, scripts ...[]string) *sharing {
	t.Helper()
	s := &sharing{harness: newHarness(t)}
	s.session = s.harness.session(s.a, "a")
	s.a.sharer.limits = sharedLimits{call: time.Hour, begin: time.Hour, end: time.Hour,
		statement: time.Second, slow: time.Second / 2}
	for i, statements := range scripts {
		table := fmt.Sprintf("t%d", i)
		s.exec("CREATE TABLE public." + table +
			" (n int UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO public." + table +
			" VALUES (0)")
		run := s.granted(s.a, s.session, request(t, "job-"+table, table))
		list := script(statements...).Statements
		for n := range list {
			list[n].SQL = strings.ReplaceAll(list[n].SQL, "$t", "public."+table)
		}
		s.runs = append(s.runs, &sharedRun{ctx: t.Context(), run: run, statements: list})
	}
	return s
}

const insertOne = "INSERT INTO $t VALUES (1)"

// transactions returns the transactions that wrote the row 1 of the tables; 0 if there is none.
func (s *sharing) transactions() []int {
	s.t.Helper()
	ids := make([]int, len(s.runs))
	for i := range s.runs {
		ids[i] = query[int](s.harness, fmt.Sprintf(
			"SELECT coalesce(max(xmin::text::int), 0) FROM public.t%d WHERE n = 1", i))
	}
	return ids
}

// expectCommitted fails the test unless share has committed and ended these runs, and no others.
func (s *sharing) expectCommitted(want ...bool) {
	s.t.Helper()
	for i, r := range s.runs {
		state, wrote := "running", 0
		if want[i] {
			state, wrote = "succeeded", 1
		}
		claims := query[int](s.harness, "SELECT (SELECT count(*) FROM holdfast.claims WHERE "+
			"run = $1) + (SELECT count(*) FROM holdfast.grants WHERE token = $2)", r.run.ID,
			r.run.Token)
		rows := query[int](s.harness, fmt.Sprintf("SELECT count(*) FROM public.t%d WHERE n = 1", i))
		got := s.state(r.run.ID)
		if got == "lost" && !want[i] { // by the test
			state, claims = "lost", 1
		}
		if r.committed != want[i] || got != state || (claims == 0) != want[i] || rows != wrote ||
			r.lostReply != nil {
			s.t.Errorf("run %d: committed is %t, want %t; state is %s, %d claims and grants, %d "+
				"rows, lost reply %v", i, r.committed, want[i], got, claims, rows, r.lostReply)
		}
	}
}

func TestRunsShareATransaction(t *testing.T) {
	t.Parallel()
	s := newSharing(t, []string{insertOne}, []string{insertOne, "UPDATE $t SET n = 2 WHERE n = 0"},
		[]string{"SELECT 1"})
	s.runs[2].statements[0] = storage.Statement{SQL: "INSERT INTO public.t2 VALUES (@one - $1)",
		Args:  []any{int64(0)},
		Named: map[string]storage.NamedArg{"one": {Value: int64(1), Type: "int"}}}
	s.register(s.a, s.session, storage.Definition{Name: "job-t2", Hash: "h", Handler: "sql",
		Hooks: []jobs.Hook{{Webhook: "w", State: jobs.Succeeded}}})
	s.a.sharer.share(t.Context(), s.runs)
	s.expectCommitted(true, true, true)
	if ids := s.transactions(); ids[0] != ids[1] || ids[1] != ids[2] {
		t.Errorf("transactions %v, want the same", ids)
	}
	if _, _, deliveries := s.written("job-t2", s.runs[2].run); deliveries != 1 {
		t.Errorf("%d deliveries of webhooks, want 1", deliveries)
	}
	if n := query[int](s.harness, "SELECT sum(runs) FROM holdfast.tally_changes "+
		"WHERE state = 'succeeded'"); n != 3 {
		t.Errorf("%d runs in the tally, want 3", n)
	}
	outputs := query[string](s.harness, "SELECT string_agg(output || result, '' ORDER BY output, "+
		"result) FROM holdfast.outputs")
	const want = `statement 1: INSERT 0 1
{"rows_affected":[1]}statement 1: INSERT 0 1
{"rows_affected":[1]}statement 1: INSERT 0 1
statement 2: UPDATE 1
{"rows_affected":[1,1]}`
	if outputs != want {
		t.Errorf("outputs and results:\n%s\nwant\n%s", outputs, want)
	}
}

// A run that cannot end in a shared transaction has no effect there, and does not prevent the
// others.
func TestRunLeavesASharedTransaction(t *testing.T) {
	t.Parallel()
	const update = "UPDATE $t SET n = 2 WHERE n = 0"
	rollBack := func(s *sharing) { s.exec("ROLLBACK") }
	for name, c := range map[string]struct {
		statements      []string
		prepare, finish func(s *sharing)
	}{
		"its statement fails":      {statements: []string{insertOne, "SELECT 1/0"}},
		"its statement takes long": {statements: []string{insertOne, "SELECT pg_sleep(20)"}},
		"its statements take long": {statements: []string{insertOne, "SELECT pg_sleep(0.6)",
			"SELECT pg_sleep(0.6)", "SELECT 1"}},
		"its row is locked": {[]string{insertOne, update}, func(s *sharing) {
			s.exec("BEGIN")
			s.exec("SELECT FROM public.t1 WHERE n = 0 FOR UPDATE")
		}, rollBack},
		"its claim is locked": {[]string{insertOne}, func(s *sharing) {
			s.exec("BEGIN")
			s.exec("SELECT FROM holdfast.claims WHERE run = $1 FOR UPDATE", s.runs[1].run.ID)
		}, rollBack},
		"its claim is gone": {[]string{insertOne}, func(s *sharing) {
			err := s.b.Revoke(s.t.Context(), s.runs[1].run.Token, jobs.Lost, reasons.ClaimLost)
			if err != nil {
				s.t.Fatal(err)
			}
		}, nil},
		"its token belongs to another run": {[]string{insertOne}, func(s *sharing) {
			s.exec("UPDATE holdfast.claims SET run = gen_random_uuid() WHERE token = $1",
				s.runs[1].run.Token)
		}, func(s *sharing) {
			s.exec("UPDATE holdfast.claims SET run = $1 WHERE token = $2", s.runs[1].run.ID,
				s.runs[1].run.Token)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSharing(t, []string{insertOne}, c.statements, []string{insertOne})
			if c.prepare != nil {
				c.prepare(s)
			}
			s.a.sharer.share(t.Context(), s.runs)
			if c.finish != nil {
				c.finish(s)
			}
			s.expectCommitted(true, false, true)
			if ids := s.transactions(); ids[0] != ids[2] {
				t.Errorf("transactions %v, want the first and the last to be the same", ids)
			}
		})
	}
}

// A shared transaction that cannot commit has no effect. Each run then executes its statements in a
// transaction of its own.
func TestSharedTransactionThatCannotCommit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		statement string
		excludes  bool // its job from shared transactions
	}{
		"a deferred constraint fails": {"INSERT INTO $t VALUES (0)", true},
		"a run deletes its claim":     {"DELETE FROM holdfast.claims WHERE run = 'RUN'", false},
		"a run ends itself": {"UPDATE holdfast.runs SET state = 'cancelled' WHERE id = 'RUN'",
			false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSharing(t, []string{insertOne}, []string{insertOne, c.statement})
			for i := range s.runs[1].statements {
				s.runs[1].statements[i].SQL = strings.ReplaceAll(s.runs[1].statements[i].SQL, "RUN",
					s.runs[1].run.ID.String())
			}
			s.a.sharer.share(t.Context(), s.runs)
			s.expectCommitted(false, false)
			for i, r := range s.runs {
				_, err := s.a.RunStatements(t.Context(), r.run,
					storage.Script{Statements: r.statements, Share: true})
				if r.committed = err == nil; r.committed != (i == 0) {
					t.Errorf("run %d: got error %v", i, err)
				}
				if got, want := s.a.sharer.mayShare(r.run.Job), i == 0 || !c.excludes; got != want {
					t.Errorf("run %d: the job may share is %t, want %t", i, got, want)
				}
			}
			s.expectCommitted(true, false)
		})
	}
}

func TestSharedTransactionSkipsEndedContexts(t *testing.T) {
	t.Parallel()
	s := newSharing(t, []string{insertOne}, []string{insertOne})
	cause := errors.New("cancelled by anna")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	s.runs[0].ctx = ctx
	s.a.sharer.share(t.Context(), s.runs)
	s.expectCommitted(false, true)
	if !errors.Is(s.runs[0].err, cause) {
		t.Errorf("got error %v, want %v", s.runs[0].err, cause)
	}
	if _, err := s.a.RunStatements(ctx, s.runs[0].run, storage.Script{
		Statements: s.runs[0].statements, Share: true}); !errors.Is(err, cause) {
		t.Errorf("RunStatements: got error %v, want %v", err, cause)
	}
}

// The rows of the first run stay locked for a short time only.
func TestSharedTransactionEndsEarly(t *testing.T) {
	t.Parallel()
	s := newSharing(t, []string{insertOne, "SELECT pg_sleep(0.1)"}, []string{insertOne})
	s.a.sharer.limits.begin = newSharedLimits().begin
	s.a.sharer.share(t.Context(), s.runs)
	s.expectCommitted(true, true)
	if ids := s.transactions(); ids[0] == ids[1] {
		t.Errorf("transactions %v, want two", ids)
	}
}

// Deferred triggers have the limits of the statements.
func TestSlowDeferredTriggerLeavesASharedTransaction(t *testing.T) {
	t.Parallel()
	s := newSharing(t, []string{insertOne}, []string{insertOne})
	s.exec(`CREATE FUNCTION public.doze() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM pg_sleep(1.5); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER doze AFTER INSERT ON public.t1
		DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.doze()`)
	s.a.sharer.share(t.Context(), s.runs)
	s.expectCommitted(false, false)
	for _, r := range s.runs {
		_, err := s.a.RunStatements(t.Context(), r.run,
			storage.Script{Statements: r.statements, Share: true})
		if r.committed = err == nil; err != nil {
			t.Error(err)
		}
	}
	s.expectCommitted(true, true)
}

// The limits of a shared transaction do not remain in the session, and the planner's settings of
// the store do not apply to the statements.
func TestSettingsOfASharedTransaction(t *testing.T) {
	t.Parallel()
	const settings = "concat_ws(' ', current_setting('enable_seqscan'), " +
		"current_setting('plan_cache_mode'), current_setting('lock_timeout'), " +
		"current_setting('statement_timeout'), " +
		"current_setting('idle_in_transaction_session_timeout'), current_setting('work_mem'))"
	const note = "INSERT INTO public.noted SELECT " + settings
	for name, c := range map[string]struct {
		open  func(s *harness) *Store
		after string
	}{
		"own pool": {func(s *harness) *Store {
			store, err := Open(s.t.Context(), Options{URL: s.url, Log: zerolog.Nop()})
			if err != nil {
				s.t.Fatal(err)
			}
			s.t.Cleanup(store.Close)
			return store
		}, "on auto 0 0 0 4MB"},
		// The program resets the sessions of its pool.
		"pool of the program": {func(s *harness) *Store {
			return borrowing(s.t, programPool(s.t, s.url, 6))
		}, "on auto 0 0 0 1MB"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSharing(t, []string{note},
				[]string{"SELECT set_config('work_mem', '1MB', false)"})
			s.exec("CREATE TABLE public.noted (settings text, deferred text)")
			s.exec(`CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				UPDATE public.noted SET deferred = ` + settings + `;
				RETURN NULL; END $$;
				CREATE CONSTRAINT TRIGGER note AFTER INSERT ON public.noted
				DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.note()`)
			limits := s.a.sharer.limits
			limits.statement = time.Minute
			s.a = c.open(s.harness)
			s.a.sharer.limits = limits
			s.a.sharer.share(t.Context(), s.runs)
			if !s.runs[0].committed || !s.runs[1].committed {
				t.Error("the runs have not ended")
			}
			const want = "on auto 20ms 1min 5s 4MB"
			if got := query[string](s.harness, "SELECT settings FROM public.noted"); got != want {
				t.Errorf("during the transaction: got %q, want %q", got, want)
			}
			const deferred = "on auto 20ms 1min 5s 1MB"
			if got := query[string](s.harness,
				"SELECT deferred FROM public.noted"); got != deferred {
				t.Errorf("in a deferred trigger: got %q, want %q", got, deferred)
			}
			conn, release, err := s.a.work.lease(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			var after string
			if err := conn.QueryRow(t.Context(), "SELECT "+settings).Scan(&after); err != nil ||
				after != c.after {
				t.Errorf("after the transaction: got %q, %v, want %q", after, err, c.after)
			}
		})
	}
}

// The role of jobs has the rights that a shared transaction needs.
func TestRoleOfJobsSharesTransactions(t *testing.T) {
	s := newSharing(t, []string{insertOne}, []string{insertOne})
	makeRoles(s.harness)
	s.exec("GRANT ALL ON ALL TABLES IN SCHEMA public TO holdfast_jobs")
	limited := openLimited(s.harness)
	limited.sharer.limits = s.a.sharer.limits
	limited.sharer.share(t.Context(), s.runs)
	s.expectCommitted(true, true)
	if ids := s.transactions(); ids[0] != ids[1] {
		t.Errorf("transactions %v, want the same", ids)
	}
}

// A dead session's runs are in a shared transaction. The sweep ends the transaction, and all of
// them are lost.
func TestSweepEndsASharedTransaction(t *testing.T) {
	t.Parallel()
	s := newSharing(t, []string{insertOne}, []string{insertOne})
	s.pause("a", "holdfast.runs", "UPDATE", "true")
	done := make(chan error, len(s.runs))
	go func() {
		s.a.sharer.share(t.Context(), s.runs)
		done <- nil
	}()
	awaitWaiting(s.harness, "a", done) // in its end
	s.expire(s.session)
	if swept, err := s.b.Sweep(t.Context()); err != nil || swept.Ended != 1 {
		t.Errorf("first sweep: %+v, %v", swept, err)
	}
	<-done
	if swept, err := s.b.Sweep(t.Context()); err != nil || len(swept.Lost) != 2 {
		t.Errorf("second sweep: %+v, %v", swept, err)
	}
	for i, r := range s.runs {
		if state := s.state(r.run.ID); r.committed || state != "lost" {
			t.Errorf("run %d: committed is %t, state is %s", i, r.committed, state)
		}
	}
	if ids := s.transactions(); ids[0] != 0 || ids[1] != 0 {
		t.Errorf("transactions %v have written, want none", ids)
	}
}
