package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// These tests pin the rules of the protocol for locks. Each plans the interleaving in which one
// rule matters.

func TestLocksGrantedTogetherExclude(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ first, second string }{
		{"path:a/b", "path:a"}, {"path:a", "path:a/b"}, {"path:a/b/c/d", "path:a/b"},
		{"path:a", "path:a"},
		{"shared path:a", "path:a/b"}, {"shared path:a", "path:a"}, {"shared path:a/b", "path:a"},
		{"path:a/b", "shared path:a"},
	} {
		t.Run(c.first+" then "+c.second, func(t *testing.T) {
			s := newHarness(t)
			s.fences("path:a", "path:a/b", "path:a/b/c", "path:a/b/c/d")
			resume := s.pause("a", "holdfast.claims", "COMMIT", "true")
			first := s.grant(s.a, s.locks(s.a, "a"), lockRequest(t, c.first))
			awaitWaiting(s, "a", first) // granted, not committed
			second := s.grant(s.b, s.locks(s.b, "b"), lockRequest(t, c.second))
			awaitWaiting(s, "b", second) // at the fence
			resume()
			if got := append(s.tokens(first), s.tokens(second)...); got[0] == 0 || got[1] != 0 {
				t.Errorf("tokens %v, want the first alone to be granted", got)
			}
		})
	}
}

func TestLockAndRunGrantedTogetherExclude(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ lock, table string }{{"table:public/orders", "orders"},
		{"table:public", "orders"}, {"shared table:public/orders", "public.*"}} {
		t.Run(fmt.Sprintf("%s then a run on %s", c.lock, c.table), func(t *testing.T) {
			s := newHarness(t)
			s.fences("table:public", "table:public/orders")
			resume := s.pause("a", "holdfast.claims", "COMMIT", "true")
			lock := s.grant(s.a, s.locks(s.a, "a"), lockRequest(t, c.lock))
			awaitWaiting(s, "a", lock)
			run := s.start(s.b, s.session(s.b, "b"), request(t, "job", c.table))
			awaitWaiting(s, "b", run)
			resume()
			if s.tokens(lock)[0] == 0 {
				t.Error("lock: got a refusal, want a grant")
			}
			s.expect(run, storage.StartBlocked)
		})
		t.Run(fmt.Sprintf("a run on %s then %s", c.table, c.lock), func(t *testing.T) {
			s := newHarness(t)
			s.fences("table:public", "table:public/orders")
			resume := s.pause("a", "holdfast.claims", "COMMIT", "true")
			run := s.start(s.a, s.session(s.a, "a"), request(t, "job", c.table))
			awaitWaiting(s, "a", run)
			lock := s.grant(s.b, s.locks(s.b, "b"), lockRequest(t, c.lock))
			awaitWaiting(s, "b", lock)
			resume()
			s.expect(run, storage.StartGranted)
			if s.tokens(lock)[0] != 0 {
				t.Error("lock: got a grant, want a refusal")
			}
		})
	}
}

func TestLocksOfOneBatchExclude(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	got := s.tokens(s.grant(s.a, s.locks(s.a, "a"), lockRequest(t, "path:a"),
		lockRequest(t, "path:b"),
		lockRequest(t, "path:b/c"), lockRequest(t, "path:a"),
		lockRequest(t, "slot slot:n"), lockRequest(t, "slot slot:n"), lockRequest(t, "slot slot:n"),
		lockRequest(t)))
	var outcomes []bool
	for _, token := range got {
		outcomes = append(outcomes, token != 0)
	}
	if want := []bool{true, true, false, false, true, true, false, true}; !slices.Equal(outcomes,
		want) {
		t.Errorf("granted %v, want %v", outcomes, want)
	}
}

// If two batches locked their fences in the order of their requests, each would hold what the other
// waits for.
func TestBatchesOfLocksInOppositeOrdersDoNotDeadlock(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	a, b := s.locks(s.a, "a"), s.locks(s.b, "b")
	s.fences("path:1", "path:2", "path:2/x", "path:3", "path:3/y")
	tx := s.inTransaction(t, "SELECT FROM holdfast.fences WHERE resource = 'path:2' FOR UPDATE")
	first := s.grant(s.a, a, lockRequest(t, "path:1"), lockRequest(t, "path:2/x"),
		lockRequest(t, "path:3"))
	awaitWaiting(s, "a", first) // has 1, is at 2
	second := s.grant(s.b, b, lockRequest(t, "path:3/y"), lockRequest(t, "path:1"))
	awaitWaiting(s, "b", second) // at 1, and does not have 3
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := append(s.tokens(first), s.tokens(second)...); slices.Contains(got[:3], 0) ||
		got[3] != 0 || got[4] != 0 {
		t.Errorf("tokens %v", got)
	}
}

// inTransaction runs a statement in a transaction on a connection of its own.
func (s *harness) inTransaction(t *testing.T, sql string, args ...any) pgx.Tx {
	t.Helper()
	tx, err := s.a.views.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
	return tx
}

func TestGrantIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.locks(s.a, "a")
	counter := &turns{}
	traced := openTraced(t, s.url, 1, counter)
	// its statements are prepared now
	s.release(traced, s.hold(traced, session, lockRequest(t, "path:a/b", "path:c")))
	counter.batches, counter.queries = 0, 0
	token := s.hold(traced, session, lockRequest(t, "path:d/b", "path:e"))
	if counter.batches != 1 || counter.queries != 0 {
		t.Errorf("%d batches and %d single statements, want one batch: a program paused between "+
			"two holds fences", counter.batches, counter.queries)
	}
	counter.batches = 0
	s.release(traced, token)
	if counter.batches != 1 || counter.queries != 0 {
		t.Errorf("release: %d batches and %d single statements, want one batch", counter.batches,
			counter.queries)
	}
}

// A session that expires while its grant waits for a fence is granted nothing, not even by later
// decisions of the same call.
func TestExpiryIsCheckedAtTheEndOfAGrant(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.locks(s.b, "b")
	s.release(s.b, s.hold(s.b, session, lockRequest(t, "path:a"))) // the fence exists
	tx := s.inTransaction(t, "SELECT FROM holdfast.fences FOR UPDATE")
	late := s.grant(s.b, session, lockRequest(t, "path:a"), waits(lockRequest(t, "path:a")))
	awaitWaiting(s, "b", late)
	s.expire(session)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-late; !errors.Is(got.err, locking.ErrSessionLost) {
		t.Errorf("grant of a session that expired meanwhile: %+v", got)
	}
	s.left(0, 0, 0, 0)
}

func TestDeadSessionIsGrantedNothing(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.locks(s.a, "a")
	s.release(s.a, s.hold(s.a, session, lockRequest(t, "path:a"))) // the fence exists
	s.expire(session)
	tx := s.inTransaction(t, "SELECT FROM holdfast.fences FOR UPDATE") // no grant passes this
	if got := <-s.grant(s.a, session, lockRequest(t, "path:a")); !errors.Is(got.err,
		locking.ErrSessionLost) {
		t.Errorf("grant of an expired session: %+v", got)
	}
	if got := <-s.grant(s.a, uuid.New(), lockRequest(t, "path:a")); !errors.Is(got.err,
		locking.ErrSessionLost) {
		t.Errorf("grant of an unknown session: %+v", got)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestSessionDoesNotEndDuringAGrant(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.locks(s.a, "a")
	resume := s.pause("a", "holdfast.claims", "COMMIT", "true")
	// The session is live when the check runs, and expires before the commit.
	first := s.grant(s.a, session, lockRequest(t, "path:a"))
	awaitWaiting(s, "a", first)
	s.expire(session)
	if released, err := s.b.Grants().Sweep(t.Context()); err != nil || len(released) != 0 {
		t.Fatalf("sweep beside a grant: %+v, %v", released, err)
	}
	if ended := query[bool](s, "SELECT ended_at IS NOT NULL FROM holdfast.sessions WHERE id = $1",
		session); ended {
		t.Fatal("grant and end of its session: got both, want one")
	}
	resume()
	token := s.tokens(first)[0]
	released, err := s.b.Grants().Sweep(t.Context())
	if err != nil || len(released) != 1 || released[0].Token != token {
		t.Fatalf("sweep after the grant: %+v, %v", released, err)
	}
	s.left(0, 0, 0, 0)
}

// The token is drawn after the check, so that the later grant has the larger token.
func TestLaterGrantHasTheLargerToken(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	a, b := s.locks(s.a, "a"), s.locks(s.b, "b")
	resume := s.pause("a", "holdfast.fences", "INSERT", "true")
	first := s.grant(s.a, a, lockRequest(t, "path:x"))
	awaitWaiting(s, "a", first) // before its fence
	earlier := s.hold(s.b, b, lockRequest(t, "path:x"))
	s.release(s.b, earlier)
	resume()
	if later := s.tokens(first)[0]; later <= earlier {
		t.Errorf("token %d after token %d on one resource", later, earlier)
	}
}

func TestLostReplyToAGrant(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	proxied, proxy := openProxied(t, s.url)
	session := s.locks(s.b, "b")
	s.release(proxied, s.hold(proxied, session, lockRequest(t, "path:warm")))
	lost, none := waits(lockRequest(t, "path:a", "shared path:b/c")), lockRequest(t)
	resume := s.pause("a", "holdfast.claims", "COMMIT", "true")
	done := s.grant(proxied, session, lost, none)
	awaitWaiting(s, "a", done)
	proxy.MuteAll()
	resume()
	for query[int](s, "SELECT count(*) FROM holdfast.claims") < 2 {
		continue // until it has committed
	}
	proxy.CutAll()
	if got := <-done; !errors.Is(got.err, locking.ErrUnavailable) {
		t.Fatalf("grant whose reply was lost: %+v", got)
	}
	again := s.tokens(s.grant(s.b, session, lost, none))
	heartbeat, err := s.b.Grants().Heartbeat(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	if heartbeat.Claims[again[0]] != lost.ID || heartbeat.Claims[again[1]] != none.ID ||
		len(heartbeat.Claims) != 2 {
		t.Errorf("tokens %v, claims %v", again, heartbeat.Claims)
	}
	s.left(2, 2, 0, 0)
}

// Two calls with one id overlap, because the caller's timeout has ended the first.
func TestOverlappingGrantsOfOneLockReturnOneClaim(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string][]string{"with resources": {"path:a", "shared path:b"},
		"without": nil} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t)
			session := s.locks(s.a, "a")
			lock := lockRequest(t, keys...)
			resume := s.pause("a", "holdfast.claims", "COMMIT", "true")
			first := s.grant(s.a, session, lock)
			awaitWaiting(s, "a", first)
			second := s.grant(s.b, session, lock)
			awaitWaiting(s, "b", second)
			resume()
			if one, two := s.tokens(first)[0], s.tokens(second)[0]; one == 0 || one != two {
				t.Errorf("tokens %d and %d of one lock", one, two)
			}
			s.left(1, len(keys), 0, 0)
		})
	}
}

// fencedBy holds a transaction open that the lock fences.
func (s *harness) fencedBy(token locking.Token) (end func() error) {
	s.t.Helper()
	open, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- s.a.fenced(s.t.Context(), holder{token: token},
			committing(s.t.Context(), func(tx pgx.Tx) error {
				_, err := tx.Exec(s.t.Context(), "INSERT INTO public.totals VALUES (1)")
				close(open)
				<-goOn // as a program that is paused inside its transaction
				return err
			}))
	}()
	<-open
	return func() error {
		close(goOn)
		return <-done
	}
}

func TestSweepEndsTheTransactionOfADeadLock(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.exec("CREATE TABLE public.totals (n int)")
	session := s.locks(s.a, "a")
	token := s.hold(s.a, session, lockRequest(t, "path:a"))
	end := s.fencedBy(token)
	s.expire(session)
	if released, err := s.b.Grants().Sweep(t.Context()); err != nil || len(released) != 0 {
		t.Fatalf("first sweep: %+v, %v", released, err)
	}
	released, err := s.b.Grants().Sweep(t.Context())
	if err != nil || len(released) != 1 || released[0].Token != token {
		t.Fatalf("second sweep: %+v, %v", released, err)
	}
	if err := end(); err == nil {
		t.Error("commit of the ended transaction: got success, want an error")
	}
	if n := query[int](s, "SELECT count(*) FROM public.totals"); n != 0 {
		t.Errorf("%d rows of a lock that was swept", n)
	}
}

// A release does not end a claim whose transaction is about to commit.
func TestClaimExistsWhileItsTransactionCommits(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.exec("CREATE TABLE public.totals (n int)")
	session := s.locks(s.a, "a")
	token := s.hold(s.a, session, lockRequest(t, "path:a"))
	end := s.fencedBy(token)
	if got, err := s.b.Grants().Release(t.Context(), []locking.Token{token}); err != nil ||
		got[0] != locking.ReleaseInUse {
		t.Errorf("release during the transaction: got %v, %v, want it in use", got, err)
	}
	if blocker := s.refused(s.a, session, lockRequest(t, "path:a")); blocker.Waiting {
		t.Errorf("refused by %+v", blocker)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	s.release(s.b, token)
	if n := query[int](s, "SELECT count(*) FROM public.totals"); n != 1 {
		t.Errorf("%d rows were committed", n)
	}
}

// A release does not wait for one that has locked the same claims, so the two cannot deadlock.
func TestReleaseDoesNotWaitForAnother(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.locks(s.a, "a")
	one, two := s.hold(s.a, session, lockRequest(t, "path:1")),
		s.hold(s.a, session, lockRequest(t, "path:2"))
	other := s.hold(s.a, session, lockRequest(t, "path:3"))
	resume := s.pause("a", "holdfast.claims", "DELETE", "true")
	first := make(chan error, 1)
	go func() {
		_, err := s.a.Grants().Release(t.Context(), []locking.Token{two, one})
		first <- err
	}()
	awaitWaiting(s, "a", first)
	got, err := s.b.Grants().Release(t.Context(), []locking.Token{one, other, two})
	want := []locking.ReleaseResult{locking.ReleaseInUse, locking.ReleaseDone, locking.ReleaseInUse}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("release beside another: got %v, %v, want %v", got, err, want)
	}
	resume()
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	s.left(0, 0, 0, 0)
}

func TestReleaseAndSweepDoNotDeadlock(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.locks(s.a, "a")
	tokens := []locking.Token{s.hold(s.a, session, lockRequest(t, "path:1")),
		s.hold(s.a, session, lockRequest(t, "path:2"))}
	resume := s.pause("a", "holdfast.grants", "DELETE", "true")
	done := make(chan error, 1)
	go func() {
		released, err := s.a.Grants().Release(t.Context(), tokens)
		if err == nil && slices.ContainsFunc(released, notDone) {
			err = fmt.Errorf("released: %v, want all", released)
		}
		done <- err
	}()
	awaitWaiting(s, "a", done) // has the claims, is at the grants
	s.expire(session)
	swept, left, err := s.b.loseExpired(t.Context())
	if err != nil || len(swept.Released) != 0 || len(left.stuck) != 2 {
		t.Fatalf("sweep beside a release: %+v, %v, %v", swept, left, err)
	}
	resume()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s.left(0, 0, 0, 0)
}

// A grant of two waiting locks ends their waits in two steps. A withdrawal of both comes in
// between.
func TestGrantAndWithdrawalDoNotDeadlock(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.locks(s.a, "a")
	holder := s.hold(s.a, session, lockRequest(t, "path:a"))
	low, high := waits(lockRequest(t, "path:a/1")), waits(lockRequest(t, "path:a/1/2"))
	low.ID, high.ID = uuid.MustParse("00000000-0000-0000-0000-000000000001"),
		uuid.MustParse("00000000-0000-0000-0000-000000000002")
	s.refused(s.a, session, high) // the older
	s.refused(s.a, session, low)
	s.release(s.a, holder)
	resume := s.pause("a", "holdfast.claims", "INSERT", "NEW.run::text LIKE '%2'")
	first := s.grant(s.a, session, high, low)
	awaitWaiting(s, "a", first) // it is about to end the wait of the higher id
	withdrawn := make(chan error, 1)
	go func() {
		withdrawn <- s.b.Grants().Withdraw(t.Context(), session, []uuid.UUID{low.ID, high.ID})
	}()
	awaitWaiting(s, "b", withdrawn)
	resume()
	if got := s.tokens(first); got[0] == 0 || got[1] != 0 {
		t.Errorf("tokens %v", got)
	}
	if err := <-withdrawn; err != nil {
		t.Fatal(err)
	}
	s.left(0, 0, 0, 0) // the claim that was granted meanwhile is gone too
}

func TestNULInAnOwnerDoesNotFailTheBatch(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.locks(s.a, "a")
	odd := lockRequest(t, "path:a")
	odd.Owner = locking.Owner{Replica: "a\x00b", Job: "\xff", Run: `{"`}
	s.tokens(s.grant(s.a, session, odd, lockRequest(t, "path:b")))
	if got, want := s.refused(s.a, session, lockRequest(t, "path:a")).Holder,
		(locking.Owner{Replica: "a\uFFFDb", Job: "\uFFFD", Run: `{"`}); got != want {
		t.Errorf("holder %+v, want %+v", got, want)
	}
}

func TestFencesAreNeverUpdatedByLocks(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.locks(s.a, "a")
	versions := "SELECT coalesce(string_agg(resource || ctid, ',' ORDER BY resource), '') FROM " +
		"holdfast.fences"
	s.release(s.a, s.hold(s.a, session, lockRequest(t, "path:a/b", "shared path:c")))
	before := query[string](s, versions)
	for range 5 {
		s.release(s.a, s.hold(s.a, session, lockRequest(t, "path:a/b", "shared path:c")))
	}
	if after := query[string](s, versions); after != before || before == "" {
		t.Errorf("fences moved: %s, then %s", before, after)
	}
}

// A caller that has given up repeats an id. Nothing is granted twice.
func TestOneIDTwiceInOneCallIsRefused(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	lock := lockRequest(t, "path:a")
	if got := <-s.grant(s.a, s.locks(s.a, "a"), lock, lock); got.err == nil {
		t.Errorf("granted %+v", got.results)
	}
	s.left(0, 0, 0, 0)
}

// When a replica restarts under its name, the transaction that opens the new session ends the
// former one. No other transaction does.
func TestSessionExpiresItsPredecessors(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	former, other, run := s.locks(s.a, "one"), s.locks(s.a, "two"), s.session(s.a, "one")
	next := locking.Session{ID: uuid.New(), Replica: "one", Version: "test", TTL: time.Hour,
		ReplaceEarlier: true}
	if err := s.a.Grants().OpenSession(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	later := s.locks(s.a, "one")
	if err := s.a.Grants().OpenSession(t.Context(), next); err != nil { // its reply was lost
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		session uuid.UUID
		live    bool
	}{{"former life", former, false}, {"other name", other, true},
		{"scheduler of the same name", run, true}, {"opened since", later, true},
		{"itself", next.ID, true}} {
		_, err := s.a.Grants().Heartbeat(t.Context(), c.session)
		if c.live && err != nil || !c.live && !errors.Is(err, locking.ErrSessionLost) {
			t.Errorf("%s: got error %v, want the session live: %t", c.name, err, c.live)
		}
	}
}

func TestLockSweepDoesNotSweepRuns(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	runs, idle, locks := s.session(s.a, "a"), s.session(s.a, "idle"), s.locks(s.a, "a")
	run := s.granted(s.a, runs, request(t, "job", "orders"))
	s.hold(s.a, locks, lockRequest(t, "path:a"))
	for _, session := range []uuid.UUID{runs, idle, locks} {
		s.expire(session)
	}
	if released, err := s.b.Grants().Sweep(t.Context()); err != nil || len(released) != 1 {
		t.Fatalf("sweep of locks: %+v, %v", released, err)
	}
	if state := s.state(run.ID); state != "running" {
		t.Errorf("run is %s: whoever sweeps locks does not know whether it is to be recovered",
			state)
	}
	swept, err := s.b.Sweep(t.Context())
	if err != nil || len(swept.Lost) != 1 || len(swept.Sessions) != 2 {
		t.Errorf("sweep: %+v, %v, want the run and the sessions of both schedulers", swept, err)
	}
}

// A cluster may have no program with locks left. Then its schedulers sweep the locks of a dead one.
func TestSchedulersSweepLocks(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	locks := s.locks(s.a, "a")
	held := lockRequest(t, "table:public/orders", "shared path:a/b", "slot slot:n")
	token := s.hold(s.a, locks, held)
	s.refused(s.a, locks, waits(lockRequest(t, "path:a")))
	s.expire(locks)
	swept, err := s.b.Sweep(t.Context())
	if err != nil || len(swept.Released) != 1 || len(swept.Lost) != 0 {
		t.Fatalf("sweep: %+v, %v", swept, err)
	}
	if got := swept.Released[0]; got.ID != held.ID || got.Token != token ||
		got.Owner != held.Owner || !slices.Equal(got.Requests, held.Requests) {
		t.Errorf("released %+v, want %+v", got, held)
	}
	s.left(0, 0, 0, 0)
	s.granted(s.b, s.session(s.b, "b"), request(t, "job", "orders"))
}

func TestLocksOfDeadSessionsAreNotAdopted(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"expired", "ended"} {
		t.Run(end, func(t *testing.T) {
			s := newHarness(t)
			one, two := s.locks(s.a, "one"), s.locks(s.a, "two")
			token := s.hold(s.a, one, lockRequest(t, "path:a"))
			s.refused(s.a, two, waits(lockRequest(t, "path:a")))
			successor := s.session(s.b, "successor")
			if end == "expired" {
				s.expire(two)
				if _, err := s.b.Sweep(t.Context()); err != nil {
					t.Fatal(err)
				}
			} else if err := s.a.Grants().EndSession(t.Context(), two); err != nil {
				t.Fatal(err)
			}
			if adopted, err := s.b.Adopt(t.Context(), successor,
				jobstest.Adoption(nil, 10, "program", "")); err != nil || len(adopted) != 0 {
				t.Errorf("adopted %+v, %v", adopted, err)
			}
			s.left(1, 1, 0, 0)
			s.release(s.a, token)
		})
	}
}

func TestSessionEndLeavesAClaimInUseToASweep(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.exec("CREATE TABLE public.totals (n int)")
	session := s.locks(s.a, "a")
	used, idle := s.hold(s.a, session, lockRequest(t, "path:a")),
		s.hold(s.a, session, lockRequest(t, "path:b"))
	end := s.fencedBy(used)
	if err := s.b.Grants().EndSession(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	s.left(1, 1, 0, 0)
	if n := query[int](s, "SELECT count(*) FROM holdfast.claims WHERE token = $1", idle); n != 0 {
		t.Error("idle claim: got it in the table, want it deleted")
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	if released, err := s.b.Grants().Sweep(t.Context()); err != nil || len(released) != 1 ||
		released[0].Token != used {
		t.Errorf("sweep: %+v, %v", released, err)
	}
}

func TestRevokeEndsALock(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.locks(s.a, "a")
	token := s.hold(s.a, session, lockRequest(t, "path:a"))
	if err := s.b.Revoke(t.Context(), token, jobs.Cancelled, reasons.Cancelled); err != nil {
		t.Fatal(err)
	}
	s.left(0, 0, 0, 0)
	if released, err := s.a.Grants().Release(t.Context(), []locking.Token{token}); err != nil ||
		released[0] != locking.ReleaseMissing {
		t.Errorf("release of a revoked claim: %v, %v", released, err)
	}
	heartbeat, err := s.a.Grants().Heartbeat(t.Context(), session)
	if err != nil || len(heartbeat.Claims) != 0 {
		t.Errorf("heartbeat %+v, %v", heartbeat, err)
	}
}

func TestLocksHaveOwners(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	token := s.hold(s.a, s.locks(s.a, "one"), lockRequest(t, "path:a/b", "slot slot:n"))
	run := s.granted(s.a, s.session(s.a, "two"), request(t, "job", "orders"))
	locks, err := s.b.Locks(t.Context())
	if err != nil || len(locks) != 3 {
		t.Fatalf("got locks %+v (%v), want 3", locks, err)
	}
	want := locking.Owner{Replica: "one", Job: "program", Run: "7"}
	if l := locks[0]; l.Holder != want || l.Token != token || l.Resource.Key() != "path:a/b" ||
		l.Mode != locking.Exclusive || l.Expires.Before(l.Since) {
		t.Errorf("lock %+v", l)
	}
	if l := locks[1]; l.Holder != want || l.Slots != 2 || l.Mode != locking.Slotted {
		t.Errorf("lock %+v", l)
	}
	if l := locks[2]; l.Holder != (locking.Owner{Replica: "two", Job: "job",
		Run: run.ID.String()}) {
		t.Errorf("lock of a run %+v", l)
	}
	replicas, err := s.b.Replicas(t.Context())
	if err != nil || len(replicas) != 2 || replicas[0].Running != 0 || replicas[1].Running != 1 {
		t.Errorf("replicas %+v, %v", replicas, err)
	}
}

// A run that waits for a lock names the lock's owner as its blocker, also if the lock itself waits.
func TestRunNamesTheLockItWaitsFor(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.locks(s.a, "a")
	token := s.hold(s.a, session, lockRequest(t, "table:public/orders"))
	waiter := waits(lockRequest(t, "table:public"))
	waiter.Owner = locking.Owner{Replica: "w", Job: "waiter", Run: "8"}
	s.refused(s.a, session, waiter)
	runs := s.session(s.b, "b")
	for _, c := range []struct {
		table, resource string
		reason          jobs.Reason
		holder          locking.Owner
	}{
		{"orders", "public/orders", reasons.LockHeld,
			locking.Owner{Replica: "r", Job: "program", Run: "7"}},
		{"sales", "public", reasons.OlderWaiter, waiter.Owner},
	} {
		r := request(t, "job "+c.table, c.table)
		r.WaitSince = time.Now().Add(time.Minute) // younger under any clock offset
		got := <-s.start(s.b, runs, r)
		if got.err != nil || got.results[0].Outcome != storage.StartBlocked {
			t.Fatalf("got %+v (%v), want the start blocked", got.results, got.err)
		}
		if b := *got.results[0].Blocker; got.results[0].Reason != c.reason ||
			b.Resource != c.resource || b.Holder != c.holder {
			t.Errorf("%s: reason %s, blocked by %+v", c.table, got.results[0].Reason, b)
		}
	}
	s.release(s.a, token)
	blocker := s.refused(s.a, session, waits(lockRequest(t, "table:public/orders")))
	if blocker.ID != waiter.ID || !blocker.Waiting || blocker.Holder != waiter.Owner ||
		blocker.Resource.Key() != "table:public" {
		t.Errorf("blocker %+v", blocker)
	}
}

// A refused request locks no fence. Otherwise clients that poll would block the one for which they
// wait.
func TestRefusalLocksNoFence(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.locks(s.a, "a")
	s.hold(s.a, session, lockRequest(t, "path:a/b"))
	s.refused(s.a, session, waits(lockRequest(t, "path:a")))
	s.inTransaction(t, "SELECT FROM holdfast.fences FOR UPDATE")
	s.refused(s.b, session, lockRequest(t, "path:a/b")) // by the holder
	s.refused(s.b, session, waits(lockRequest(t, "path:a/b", "path:a/b/c")))
	s.left(1, 1, 2, 3)
}

// Requests for descendants, one after the other, may keep a request for their ancestor from its
// fence. It then takes its position without the fence, and younger requests yield to it.
func TestGrantThatCannotLockAFenceIsQueued(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.locks(s.a, "a")
	s.fences("path:a", "path:a/b")
	s.a.lockTimeout = "3s" // the timeout bounds the later statements too
	share := "SELECT FROM holdfast.fences WHERE resource = 'path:a' FOR SHARE"
	before := s.inTransaction(t, share)
	parent := s.grant(s.a, session, waits(lockRequest(t, "path:a")))
	for query[int](s, "SELECT count(*) FROM holdfast.waits") == 0 {
		next := s.inTransaction(t, share) // another sharer at all times
		if err := before.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		before = next
	}
	if blocker := s.refused(s.b, session, lockRequest(t, "path:a/b")); !blocker.Waiting {
		t.Errorf("refused by %+v", blocker)
	}
	if err := before.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.tokens(parent)[0] == 0 {
		t.Error("last request: got a refusal, want a grant")
	}
	s.left(1, 1, 0, 0)
}

// A refused request is not granted when its blocker ends meanwhile, because it has not locked its
// fence.
func TestRefusedLockIsNotGrantedWithoutItsFence(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.locks(s.a, "a")
	blocker := s.hold(s.a, session, lockRequest(t, "path:a"))
	resume := s.pause("b", "holdfast.fences", "INSERT", "true")
	done := s.grant(s.b, session, waits(lockRequest(t, "path:a")), lockRequest(t, "path:new"))
	awaitWaiting(s, "b", done) // before the fences
	s.release(s.a, blocker)
	resume()
	if got := s.tokens(done); got[0] != 0 || got[1] == 0 {
		t.Errorf("tokens %v", got)
	}
	s.left(1, 1, 1, 1) // it has its position nevertheless
}

// awaitTransaction waits until the store waits for the end of a transaction. It ignores a pause
// that has just ended.
func (s *harness) awaitTransaction(application string, done <-chan bool) {
	s.t.Helper()
	for !query[bool](s, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = "+
		"current_database() AND application_name = $1 AND wait_event = 'transactionid')",
		application) {
		select {
		case result := <-done:
			s.t.Fatalf("%s went through without waiting: %v", application, result)
		default:
		}
	}
}

// A fence may be deleted between the statement that has found it and the one that locks it, while
// another transaction has added it again and locked it.
func TestGrantNoticesAFenceDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	start := func(ask way) func(s *harness) <-chan bool {
		return func(s *harness) <-chan bool {
			held := make(chan bool, 1)
			r := ask(request(t, "job"))
			r.Requests = lockRequest(t, "path:a", "path:new").Requests
			done := s.start(s.b, s.session(s.b, "b"), r)
			go func() {
				got := <-done
				held <- got.err == nil && got.results[0].Outcome == storage.StartGranted
			}()
			return held
		}
	}
	for name, ask := range map[string]func(s *harness) <-chan bool{
		"by a lock": func(s *harness) <-chan bool {
			held := make(chan bool, 1)
			done := s.grant(s.b, s.locks(s.b, "b"), lockRequest(t, "path:a", "path:new"))
			go func() { got := <-done; held <- got.err == nil && got.results[0].Token != 0 }()
			return held
		},
		"by a new run": start(func(r storage.StartRequest) storage.StartRequest { return r }),
		"by a run":     start(again),
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t)
			s.fences("path:a")
			s.exec("UPDATE holdfast.fences SET added_at = now() - interval '61 minutes'")
			// after its look for the fences
			resume := s.pause("b", "holdfast.fences", "INSERT", "true")
			late := ask(s)
			awaitWaiting(s, "b", late)
			if _, err := s.a.Grants().Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := query[int](s, "SELECT count(*) FROM holdfast.fences"); n != 0 {
				t.Fatalf("%d fences are left of an hour ago", n)
			}
			other := s.inTransaction(t, `
WITH claim AS (
    INSERT INTO holdfast.claims VALUES (nextval('holdfast.tokens'), gen_random_uuid(),
        gen_random_uuid(), now(), '{}') RETURNING token
), fence AS (
    INSERT INTO holdfast.fences (resource) VALUES ('path:a')
)
INSERT INTO holdfast.grants SELECT 'path:a', token, 'exclusive', 0 FROM claim`)
			resume()
			s.awaitTransaction("b", late) // that adds the fence
			if err := other.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if <-late {
				t.Error("name that another lock holds: got a grant, want a refusal")
			}
		})
	}
}
