package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// Each test plans the interleaving in which one rule of the protocol matters, and fails without
// that rule.

func TestAncestorAndDescendantStartedTogetherExclude(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		first  string
		mode   locking.Mode
		second string
	}{
		{"public.orders", locking.Exclusive, "public.*"},
		{"public.*", locking.Exclusive, "public.orders"}, {"orders", locking.Exclusive, "ORDERS"},
		{"public.*", locking.Shared, "public.orders"}, {"orders", locking.Shared, "orders"},
		{"orders", locking.Shared, "public.*"},
	} {
		t.Run(fmt.Sprintf("%s %s then %s", c.mode, c.first, c.second), func(t *testing.T) {
			eachWay(t, func(t *testing.T, ask way) {
				s := newHarness(t)
				s.fences("table:public", "table:public/orders")
				resume := s.pause("a", "holdfast.claims", "COMMIT", "true")
				earlier := ask(request(t, "first", c.first))
				earlier.Requests[0].Mode = c.mode
				first := s.start(s.a, s.session(s.a, "a"), earlier)
				awaitWaiting(s, "a", first) // granted, not committed
				second := s.start(s.b, s.session(s.b, "b"), ask(request(t, "second", c.second)))
				awaitWaiting(s, "b", second) // at the fence
				resume()
				s.expect(first, storage.StartGranted)
				s.expect(second, storage.StartBlocked)
			})
		})
	}
}

func TestTwoFiringsOfOneBatchOnOneTableExclude(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, ask way) {
		s := newHarness(t)
		done := s.start(s.a, s.session(s.a, "a"), ask(request(t, "one", "orders")),
			ask(request(t, "two", "sales")), ask(request(t, "three", "orders", "sales")),
			ask(request(t, "four", "public.*")))
		s.expect(done, storage.StartGranted, storage.StartGranted, storage.StartBlocked,
			storage.StartBlocked)
	})
}

// A new request of a batch does not pass an earlier request that was sent before.
func TestNewFiringDoesNotPassAnEarlierOneOfItsBatch(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	done := s.start(s.a, s.session(s.a, "a"), again(request(t, "one", "orders")),
		request(t, "two", "orders"))
	s.expect(done, storage.StartGranted, storage.StartBlocked)
}

// The firings want no resource, so no fence orders their starts.
func TestReplicasInsertTheSameFiringsInOneOrder(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, ask way) {
		s := newHarness(t)
		resume := s.pause("a", "holdfast.runs", "INSERT", "NEW.job = 'two'")
		first := s.start(s.a, s.session(s.a, "a"), ask(request(t, "one")), ask(request(t, "two")))
		awaitWaiting(s, "a", first) // has inserted one, not two
		second := s.start(s.b, s.session(s.b, "b"), ask(request(t, "two")), ask(request(t, "one")))
		awaitWaiting(s, "b", second)
		resume()
		s.expect(first, storage.StartGranted, storage.StartGranted)
		s.expect(second, storage.StartDuplicate, storage.StartDuplicate)
	})
}

// A replica that loses a race for one firing of a batch still starts the others. For some time it
// then uses the statement that a race does not fail.
func TestRaceForOneFiringOfABatch(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	one, two := s.session(s.a, "a"), s.session(s.b, "b")
	for _, beside := range []bool{false, true} {
		if s.b.startsBeside() != beside {
			t.Fatal("the statement of a start does not depend on races")
		}
		firing := request(t, fmt.Sprintf("contended %v", beside))
		resume := s.pause("a", "holdfast.claims", "COMMIT", "true")
		first := s.start(s.a, one, firing)
		awaitWaiting(s, "a", first) // granted, not committed
		firing.Run = uuid.New()
		second := s.start(s.b, two, firing, request(t, fmt.Sprintf("other %v", beside)))
		awaitWaiting(s, "b", second) // at the key of the firing
		resume()
		s.expect(first, storage.StartGranted)
		s.expect(second, storage.StartDuplicate, storage.StartGranted)
		s.exec("DROP TRIGGER gate ON holdfast.claims")
	}
}

// Both ways of a start insert runs when they have locked the fences. If one of them inserted its
// run before, the two would wait for each other.
func TestBothWaysOfAStartLockInOneOrder(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.fences("table:public", "table:public/orders")
	resume := s.pause("a", "holdfast.runs", "INSERT", "true")
	first := s.start(s.a, s.session(s.a, "a"), request(t, "job", "orders"))
	awaitWaiting(s, "a", first) // has the fence, and has not inserted its run
	second := s.start(s.b, s.session(s.b, "b"), again(request(t, "job", "orders")))
	awaitWaiting(s, "b", second)
	resume()
	s.expect(first, storage.StartGranted)
	s.expect(second, storage.StartDuplicate)
}

func TestSupersededRunCannotCommitDuringATakeover(t *testing.T) {
	t.Parallel()
	// With one token per resource, the takeover of public would not change the token of
	// public/orders, and the fence check of the old run would pass.
	s := newHarness(t)
	old := s.session(s.a, "a")
	run := s.granted(s.a, old, request(t, "old", "public.orders"))
	s.expire(old)
	if _, err := s.b.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	successor := s.granted(s.b, s.session(s.b, "b"), request(t, "successor", "public.*"))
	if successor.Token <= run.Token {
		t.Errorf("token of the takeover %d, not above %d", successor.Token, run.Token)
	}
	err := InTx(t.Context(), run, func(pgx.Tx) error {
		t.Error("fence check of a superseded run: got success, want an error")
		return nil
	})
	if !errors.Is(err, storage.ErrSuperseded) {
		t.Errorf("fenced transaction of a superseded run: %v", err)
	}
}

func TestSweepSkipsAClaimThatItsJobIsCommitting(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.exec("CREATE TABLE public.totals (n int)")
	s.register(s.b, s.session(s.b, "b"), storage.Definition{Name: "job", Hash: "h", Recover: true})
	session := s.session(s.a, "a")
	run := s.granted(s.a, session, request(t, "job", "totals"))
	resume := s.pause("a", "public.totals", "COMMIT", "true")
	done := make(chan error, 1)
	go func() {
		done <- CompleteInTx(t.Context(), run, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "INSERT INTO public.totals VALUES (1)")
			return err
		})
	}()
	awaitWaiting(s, "a", done) // finished inside the transaction, commit under way
	s.expire(session)
	if swept, _, err := s.b.loseExpired(t.Context()); err != nil || len(swept.Lost) != 0 {
		t.Fatalf("sweep of a run whose transaction may yet commit: %+v, %v", swept, err)
	}
	resume()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := s.b.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if state := s.state(run.ID); state != "succeeded" {
		t.Errorf("run is %s", state)
	}
	if n := query[int](s, "SELECT count(*) FROM holdfast.runs"); n != 1 {
		t.Errorf("%d runs: a recovery of a run that succeeded", n)
	}
}

func TestSweepEndsTheTransactionOfADeadClaim(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.exec("CREATE TABLE public.totals (n int)")
	session := s.session(s.a, "a")
	run := s.granted(s.a, session, request(t, "job", "totals"))
	paused, goOn := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- InTx(t.Context(), run, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), "INSERT INTO public.totals VALUES (1)"); err != nil {
				return err
			}
			close(paused)
			<-goOn // as a replica that is paused inside its transaction
			return nil
		})
	}()
	<-paused
	s.expire(session)
	swept, err := s.b.Sweep(t.Context())
	if err != nil || swept.Ended != 1 || len(swept.Lost) != 0 {
		t.Fatalf("first sweep: %+v, %v", swept, err)
	}
	swept, err = s.b.Sweep(t.Context())
	if err != nil || len(swept.Lost) != 1 || swept.Lost[0].ID != run.ID {
		t.Fatalf("second sweep: %+v, %v", swept, err)
	}
	close(goOn)
	if err := <-done; err == nil {
		t.Error("commit of the ended transaction: got success, want an error")
	}
	if n := query[int](s, "SELECT count(*) FROM public.totals"); n != 0 {
		t.Errorf("%d rows of a run that was lost", n)
	}
}

func TestFinishAndSweepDoNotDeadlock(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	one := s.granted(s.a, session, request(t, "one", "orders"))
	two := s.granted(s.a, session, request(t, "two", "sales"))
	resume := s.pause("a", "holdfast.runs", "UPDATE", "true")
	done := make(chan error, 1)
	go func() {
		_, err := s.a.Finish(t.Context(), []storage.FinishRequest{
			{Run: two.ID, Token: two.Token, State: jobs.Succeeded},
			{Run: one.ID, Token: one.Token, State: jobs.Failed, Error: "why"},
		})
		done <- err
	}()
	awaitWaiting(s, "a", done) // holds the claims, is about to write the runs
	s.expire(session)
	if swept, _, err := s.b.loseExpired(t.Context()); err != nil || len(swept.Lost) != 0 {
		t.Fatalf("sweep beside a finish: %+v, %v", swept, err)
	}
	resume()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := s.state(one.ID) + " " + s.state(two.ID); got != "failed succeeded" {
		t.Errorf("got states %s, want failed succeeded", got)
	}
}

// eachJoin runs the test with the usual plans, with nested loops, which join each row as soon as
// they have read it, and with the costs of tables in memory. A rule on the order of locks must not
// depend on the plan.
func eachJoin(t *testing.T, test func(t *testing.T, s *harness)) {
	for name, settings := range map[string][]string{"usual": nil,
		"nested loops": {"enable_hashjoin = off", "enable_mergejoin = off"},
		"in memory": {"random_page_cost = 0", "cpu_index_tuple_cost = 0",
			"cpu_operator_cost = 0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t)
			for _, setting := range settings {
				s.exec(fmt.Sprintf("ALTER DATABASE %s SET %s",
					query[string](s, "SELECT quote_ident(current_database())"), setting))
			}
			s.a, s.b = openAs(t, s.url, "a"), openAs(t, s.url, "b")
			test(t, s)
		})
	}
}

// eachFinish calls test for each join, without an output and with one, because they are finished by
// different statements.
func eachFinish(t *testing.T, test func(t *testing.T, s *harness, output string)) {
	for name, output := range map[string]string{"no output": "", "an output": "text"} {
		t.Run(name, func(t *testing.T) {
			eachJoin(t, func(t *testing.T, s *harness) { test(t, s, output) })
		})
	}
}

// With the costs of tables in memory and the statistics of few claims, a finish reads its arguments
// in their order, and looks for the claim of each. So it deletes the claims in this order.
func TestFinishesInOppositeOrdersDoNotDeadlock(t *testing.T) {
	t.Parallel()
	eachFinish(t, func(t *testing.T, s *harness, output string) {
		session := s.session(s.a, "a")
		one := s.granted(s.a, session, request(t, "one", "orders"))
		two := s.granted(s.a, session, request(t, "two", "sales"))
		s.exec("ANALYZE holdfast.claims")
		first := storage.FinishRequest{Run: one.ID, Token: one.Token, State: jobs.Succeeded,
			Output: output}
		second := storage.FinishRequest{Run: two.ID, Token: two.Token, State: jobs.Succeeded}
		resume := s.pause("a", "holdfast.claims", "DELETE", "true")
		done, other := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := s.a.Finish(t.Context(), []storage.FinishRequest{second, first})
			done <- err
		}()
		awaitWaiting(s, "a", done)
		go func() {
			_, err := s.b.Finish(t.Context(), []storage.FinishRequest{first, second})
			other <- err
		}()
		awaitWaiting(s, "b", other)
		resume()
		if err := errors.Join(<-done, <-other); err != nil {
			t.Fatal(err)
		}
	})
}

// A finish deletes all its claims before it writes a run. Otherwise it would hold a run while it
// waits for the claim of another one.
func TestFinishWritesNoRunBeforeItHasAllClaims(t *testing.T) {
	t.Parallel()
	eachFinish(t, func(t *testing.T, s *harness, output string) {
		session := s.session(s.a, "a")
		one := s.granted(s.a, session, request(t, "one", "orders"))
		two := s.granted(s.a, session, request(t, "two", "sales"))
		held := s.inTransaction(t, "SELECT FROM holdfast.claims WHERE token = $1 FOR SHARE",
			two.Token)
		done := make(chan error, 1)
		go func() {
			_, err := s.a.Finish(t.Context(), []storage.FinishRequest{
				{Run: two.ID, Token: two.Token, State: jobs.Succeeded, Output: output},
				{Run: one.ID, Token: one.Token, State: jobs.Succeeded},
			})
			done <- err
		}()
		awaitWaiting(s, "a", done) // for the second claim, with the first one
		if claims := query[int](s, "SELECT count(*) FROM (SELECT FROM holdfast.claims "+
			"FOR KEY SHARE SKIP LOCKED) c"); claims != 1 {
			t.Errorf("%d claims are free, want 1", claims)
		}
		if runs := query[int](s, "SELECT count(*) FROM (SELECT FROM holdfast.runs "+
			"FOR UPDATE SKIP LOCKED) r"); runs != 2 {
			t.Errorf("%d runs are free, want 2", runs)
		}
		if err := held.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if got := s.state(one.ID) + " " + s.state(two.ID); got != "succeeded succeeded" {
			t.Errorf("got states %s, want succeeded succeeded", got)
		}
	})
}

// A start with two schemas locks its fences in byte order, in two statements: it holds all fences
// before the one for which it waits, and none after it.
func TestStartLocksTheFencesOfSchemasInOrder(t *testing.T) {
	t.Parallel()
	names := []string{"table:a", "table:a/t", "table:b", "table:b/t"}
	for i, held := range names {
		t.Run(held, func(t *testing.T) {
			s := newHarness(t)
			s.fences(names...)
			session := s.session(s.a, "a")
			tx := s.inTransaction(t, "SELECT FROM holdfast.fences WHERE resource = $1 FOR UPDATE",
				held)
			done := s.start(s.a, session, request(t, "job", "b.t", "a.t"))
			awaitWaiting(s, "a", done)
			free := query[[]string](s, "SELECT coalesce(array_agg(resource), '{}') FROM (SELECT "+
				"resource FROM holdfast.fences ORDER BY resource FOR UPDATE SKIP LOCKED) f")
			if !slices.Equal(free, names[i+1:]) {
				t.Errorf("the fences %v are free, want %v", free, names[i+1:])
			}
			if free := query[int](s, "SELECT count(*) FROM (SELECT FROM holdfast.sessions "+
				"FOR UPDATE SKIP LOCKED) s"); free != 0 {
				t.Error("the start has locked fences before its session")
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.expect(done, storage.StartGranted)
		})
	}
}

func TestStartIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	counter := &turns{}
	traced := openTraced(t, s.url, 1, counter)
	first := request(t, "first", "orders")
	s.granted(traced, session, first)
	waits := request(t, "other", "orders")
	s.expect(s.start(traced, session, waits), storage.StartBlocked)
	for name, c := range map[string]struct {
		request storage.StartRequest
		want    storage.StartOutcome
	}{
		"new":              {request(t, "second", "sales"), storage.StartGranted},
		"new, a duplicate": {request(t, "first", "orders"), storage.StartDuplicate},
		"sent again":       {again(first), storage.StartGranted},
		"waiting":          {again(waits), storage.StartBlocked},
	} {
		t.Run(name, func(t *testing.T) {
			counter.batches, counter.queries = 0, 0 // its statements are prepared
			s.expect(s.start(traced, session, c.request), c.want)
			if counter.batches != 1 || counter.queries != 0 {
				t.Errorf("%d batches and %d single statements, want one batch: a replica paused "+
					"between two holds fences", counter.batches, counter.queries)
			}
		})
	}
}

func TestExpiryIsCheckedWhenTheStatementRuns(t *testing.T) {
	t.Parallel()
	eachWay(t, expireDuringAStart)
}

func expireDuringAStart(t *testing.T, ask way) {
	s := newHarness(t)
	session := s.session(s.b, "b")
	s.fences("table:public", "table:public/orders")
	release := s.lockFences(s.a)
	s.exec("UPDATE holdfast.sessions SET expires_at = clock_timestamp() + interval '1 second' "+
		"WHERE id = $1", session)
	late := s.start(s.b, session, ask(request(t, "late", "orders")))
	awaitWaiting(s, "b", late) // inside its transaction, which began in time
	s.exec("SELECT pg_sleep(extract(epoch FROM expires_at - clock_timestamp()) + 0.01) FROM "+
		"holdfast.sessions WHERE id = $1", session)
	release()
	s.expect(late, storage.StartNotLive)
}

func TestHeartbeatDoesNotReviveASession(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	s.expire(session)
	if _, err := s.a.Heartbeat(t.Context(), session, storage.ReplicaStatus{}); !errors.Is(err,
		storage.ErrSessionLost) {
		t.Errorf("heartbeat of an expired session: %v", err)
	}
	if _, err := s.b.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.a.Heartbeat(t.Context(), session, storage.ReplicaStatus{}); !errors.Is(err,
		storage.ErrSessionLost) {
		t.Errorf("heartbeat of an ended session: %v", err)
	}
}

func TestSessionDoesNotEndDuringAStart(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, ask way) {
		s := newHarness(t)
		session := s.session(s.a, "a")
		resume := s.pause("a", "holdfast.claims", "COMMIT", "true")
		first := s.start(s.a, session, ask(request(t, "job", "orders")))
		awaitWaiting(s, "a", first)
		s.expire(session)
		if swept, err := s.b.Sweep(t.Context()); err != nil || len(swept.Sessions) != 0 {
			t.Fatalf("sweep beside a start: %+v, %v", swept, err)
		}
		resume()
		s.expect(first, storage.StartGranted)
		if swept, err := s.b.Sweep(t.Context()); err != nil || len(swept.Lost) != 1 {
			t.Fatalf("sweep after the start: %+v, %v", swept, err)
		}
	})
}

func TestNULInOutputDoesNotFailTheBatch(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	one := s.granted(s.a, session, request(t, "one", "orders"))
	two := s.granted(s.a, session, request(t, "two", "sales"))
	done, err := s.a.Finish(t.Context(), []storage.FinishRequest{
		{Run: one.ID, Token: one.Token, State: jobs.Failed, Error: "a\x00b", Output: "c\x00d\xff"},
		{Run: two.ID, Token: two.Token, State: jobs.Succeeded},
	})
	if err != nil || !done[0] || !done[1] {
		t.Fatalf("finish: got %v (%v), want both accepted", done, err)
	}
	record, err := s.a.Run(t.Context(), one.ID)
	if err != nil || record.Error != "a\uFFFDb" || record.Output != "c\uFFFDd\uFFFD" {
		t.Errorf("got error %q and output %q (%v), want invalid bytes replaced", record.Error,
			record.Output, err)
	}
}

func TestFencesAreNeverUpdated(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	versions := "SELECT coalesce(string_agg(resource || ctid, ',' ORDER BY resource), '') FROM " +
		"holdfast.fences"
	run := s.granted(s.a, session, request(t, "job", "orders"))
	before := query[string](s, versions)
	for range 5 {
		if _, err := s.a.Finish(t.Context(),
			[]storage.FinishRequest{{Run: run.ID, Token: run.Token,
				State: jobs.Succeeded}}); err != nil {
			t.Fatal(err)
		}
		next := request(t, "job", "orders")
		next.Firing.ScheduledAt = run.ScheduledAt.Add(time.Second)
		run = s.granted(s.a, session, next)
	}
	if after := query[string](s, versions); after != before {
		t.Errorf("fences moved: %s, then %s", before, after)
	}
}

func TestTransactionControlIsRefused(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	run := s.granted(s.a, s.session(s.a, "a"), request(t, "job", "orders"))
	s.exec("CREATE TABLE public.orders (n int)")
	for _, sql := range []string{"COMMIT", " /* a /* nested */ one */ -- and\n commit", ";;END",
		"rollback", "ABORT", "Begin", "SAVEPOINT x", "PREPARE TRANSACTION 'x'", "-- x\rCOMMIT"} {
		if _, err := s.a.RunStatements(t.Context(), run,
			script("INSERT INTO orders VALUES (1)", sql)); !errors.Is(err, ErrTransactionControl) {
			t.Errorf("%q: got error %v, want ErrTransactionControl", sql, err)
		}
	}
	for _, sql := range []string{"SELECT 1; COMMIT", "DO $$ BEGIN COMMIT; END $$", "SELECT 1/0"} {
		if _, err := s.a.RunStatements(t.Context(), run,
			script("INSERT INTO orders VALUES (1)", sql)); err == nil {
			t.Errorf("%q went through", sql)
		}
	}
	if n := query[int](s, "SELECT count(*) FROM public.orders"); n != 0 {
		t.Errorf("%d rows were written outside the fence", n)
	}
	insert := storage.Statement{SQL: "INSERT INTO orders SELECT generate_series(1, $1)",
		Args: []any{int64(3)}}
	if rows, err := s.a.RunStatements(t.Context(), run, storage.Script{
		Statements: []storage.Statement{insert}}); err != nil || rows[0] != 3 {
		t.Errorf("rows %v, %v", rows, err)
	}
	if state := s.state(run.ID); state != "succeeded" {
		t.Errorf("run is %s", state)
	}
}

func TestLostReplyToACommitIsResolved(t *testing.T) {
	t.Parallel()
	const insert = "INSERT INTO public.totals VALUES (1)"
	complete := func(_ *Store, run *jobs.Run) error {
		return CompleteInTx(t.Context(), run, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), insert)
			return err
		})
	}
	share := func(s *Store, run *jobs.Run) error {
		shared := script(insert)
		shared.Share = true
		_, err := s.RunStatements(t.Context(), run, shared)
		return err
	}
	t.Run("own transaction", func(t *testing.T) {
		pause := func(s *harness) { s.pause("a", "public.totals", "COMMIT", "true") }
		testLostReply(t, complete, pause, false)
	})
	// Triggers of the job's tables may not take long there.
	t.Run("shared transaction", func(t *testing.T) {
		pause := func(s *harness) { s.pause("a", "holdfast.runs", "UPDATE", "true") }
		testLostReply(t, share, pause, true)
	})
}

// testLostReply loses the reply to the commit of execute, after pause has paused it. If again is
// true and nothing was committed, execute begins another transaction.
func testLostReply(t *testing.T, execute func(*Store, *jobs.Run) error, pause func(*harness),
	again bool) {
	for _, c := range []struct {
		name, after, state string
		rows               int
	}{
		{"committed", "SELECT pg_advisory_unlock(4242)", "succeeded", 1},
		{"not committed", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname " +
			"= current_database() AND application_name = 'a' AND wait_event_type = 'Lock'",
			"running", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newHarness(t)
			s.exec("CREATE TABLE public.totals (n int)")
			proxied, proxy := openProxied(t, s.url)
			run := s.granted(proxied, s.session(s.a, "a"), request(t, "job", "totals"))
			proxied.sharer.limits.end = time.Hour
			pause(s)
			done := make(chan error, 1)
			go func() {
				done <- execute(proxied, run)
			}()
			awaitWaiting(s, "a", done) // in its commit
			proxy.MuteAll()
			s.exec(c.after)
			for query[int](s, "SELECT count(*) FROM pg_stat_activity WHERE datname = "+
				"current_database() AND application_name = 'a' AND state = 'active'") > 0 {
				continue // until the commit has ended, one way or the other
			}
			proxy.CutAll()
			if again && c.state == "running" {
				s.exec("SELECT pg_advisory_unlock($1)", gate)
				c.state, c.rows = "succeeded", 1
			}
			switch err := <-done; {
			case c.state == "succeeded" && err != nil:
				t.Errorf("commit: %v", err)
			case c.state == "running" &&
				(!errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrSuperseded)):
				t.Errorf("commit of a run with a claim: %v", err)
			}
			if got := s.state(run.ID); got != c.state {
				t.Errorf("run is %s, want %s", got, c.state)
			}
			if n := query[int](s, "SELECT count(*) FROM public.totals"); n != c.rows {
				t.Errorf("%d rows, want %d", n, c.rows)
			}
		})
	}
}

func TestWaitingMigrationDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	empty := server.Database(t)
	blocker, err := pgx.Connect(t.Context(), empty)
	if err != nil {
		t.Fatal(err)
	}
	defer blocker.Close(context.Background())
	s.connection = blocker // which is asked for the backends of its database
	if _, err := blocker.Exec(t.Context(),
		strings.Replace(lockMigrations, "xact_", "", 1)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 2)
	for _, name := range []string{"a", "b"} {
		go func() {
			store, err := Open(context.Background(),
				Options{URL: empty + "&application_name=" + name, Migrate: true, Log: s.a.log})
			if err == nil {
				store.Close()
			}
			done <- err
		}()
	}
	awaitWaiting(s, "a", done)
	awaitWaiting(s, "b", done)
	blocker.Close(t.Context())
	if err := errors.Join(<-done, <-done); err != nil {
		t.Error(err)
	}
}

func TestSchemaRefusesAnOlderBinary(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.exec("UPDATE holdfast.meta SET min_binary = $1", schemaVersion+1)
	for _, migrate := range []bool{true, false} {
		_, err := Open(t.Context(), Options{URL: s.url, Migrate: migrate, Log: s.a.log})
		var refused *SchemaError
		if !errors.As(err, &refused) || refused.MinBinary != schemaVersion+1 {
			t.Errorf("open with migrate %v: %v", migrate, err)
		}
	}
}

// A start that waits for a fence decides after the wait. A reserved position may have ended by
// then.
func TestReservationEndsWhileAStartWaits(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.fences("table:public", "table:public/orders", "table:public/sales")
	a, b := s.session(s.a, "a"), s.session(s.b, "b")
	s.granted(s.a, a, request(t, "holder", "public.orders"))
	older := request(t, "older", "public.*")
	older.Reserve = 2 * time.Second
	s.expect(s.start(s.a, a, older), storage.StartBlocked)
	busy, err := s.a.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Rollback(t.Context())
	const fence = "SELECT FROM holdfast.fences WHERE resource = 'table:public/sales' FOR UPDATE"
	if _, err := busy.Exec(t.Context(), fence); err != nil {
		t.Fatal(err)
	}
	younger := s.start(s.b, b, request(t, "younger", "public.sales"))
	awaitWaiting(s, "b", younger)
	for !query[bool](s,
		"SELECT reserved_until < clock_timestamp() FROM holdfast.waits WHERE run = $1", older.Run) {
		time.Sleep(10 * time.Millisecond)
	}
	if err := busy.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.expect(younger, storage.StartGranted)
}
