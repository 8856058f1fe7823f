package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
)

// receivedInPart sends the first part of a batch, of which PostgreSQL executes one statement. The
// rest never arrives, as after a loss of power or network at the client. The transaction is not
// idle, so no timeout ends it.
func (s *harness) receivedInPart(sql string, session uuid.UUID) {
	s.t.Helper()
	config, err := pgconn.ParseConfig(s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	conn, err := pgconn.ConnectConfig(s.t.Context(), config)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		conn.Close(context.Background()) //nolint:errcheck // its backend was ended
	})
	pipeline := conn.StartPipeline(context.Background())
	pipeline.SendQueryParams(sql, [][]byte{[]byte(session.String())}, nil, nil, nil)
	pipeline.SendFlushRequest()
	if err := pipeline.Flush(); err != nil {
		s.t.Fatal(err)
	}
	result, err := pipeline.GetResults()
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := result.(*pgconn.ResultReader).Close(); err != nil {
		s.t.Fatal(err)
	}
}

func TestSessionPinnedByAStartReceivedInPartIsSwept(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"a start":     "SELECT FROM holdfast.sessions WHERE id = $1 FOR KEY SHARE",
		"a heartbeat": "UPDATE holdfast.sessions SET renewed_at = clock_timestamp() WHERE id = $1",
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t)
			session := s.session(s.a, "a")
			run := s.granted(s.a, session, request(t, "job", "orders"))
			s.expire(session)
			s.receivedInPart(sql, session)
			s.b.pinnedAfter = 0
			swept, err := s.b.Sweep(t.Context())
			if err != nil || swept.Ended != 1 || len(swept.Sessions) != 0 {
				t.Fatalf("first sweep: %+v, %v", swept, err)
			}
			swept, err = s.b.Sweep(t.Context())
			if err != nil || len(swept.Lost) != 1 || swept.Lost[0].ID != run.ID {
				t.Fatalf("second sweep: %+v, %v", swept, err)
			}
		})
	}
}

// Slow queries of the admin page do not keep a sweep from ending a transaction.
func TestSweepEndsTransactionsBesideSlowViews(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	run := s.granted(s.a, session, request(t, "job", "orders"))
	tx, err := s.a.work.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background()) //nolint:errcheck // its backend was ended
	if _, err := tx.Exec(t.Context(), "SELECT FROM holdfast.claims WHERE token = $1 FOR SHARE",
		run.Token); err != nil {
		t.Fatal(err)
	}
	for range viewConnections {
		_, release, err := s.b.views.lease(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer release()
	}
	s.expire(session)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if swept, err := s.b.Sweep(ctx); err != nil || swept.Ended != 1 {
		t.Errorf("got %+v, %v, want one ended transaction", swept, err)
	}
}

// Two replicas sweep one session at the same time, and their backends wait for one claim.
// PostgreSQL reports the first of them as the blocker of the second, which must not end it.
func TestSweepsDoNotEndEachOther(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	run := s.granted(s.a, session, request(t, "job", "orders"))
	holder := s.inTransaction(t, "SELECT FROM holdfast.claims WHERE token = $1 FOR SHARE",
		run.Token)
	first, err := s.a.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Rollback(context.Background()) //nolint:errcheck // only locks a row
	got := make(chan error, 1)
	go func() {
		_, err := first.Exec(t.Context(), lockClaim, run.Token)
		got <- err
	}()
	s.await("a wait for a lock", "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = "+
		"current_database() AND application_name = 'a' AND wait_event_type = 'Lock')")
	s.expire(session)
	s.b.lockTimeout = "100ms"
	if swept, err := s.b.Sweep(t.Context()); err != nil || swept.Ended != 0 {
		t.Errorf("second sweep: %+v, %v, want no ended transaction", swept, err)
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-got; err != nil {
		t.Errorf("first sweep: %v", err)
	}
}

// A replica that waits for the result of a commit, whose reply was lost, does not hide the
// transaction that holds the claim.
func TestSweepEndsTheTransactionBehindALostReply(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	run := s.granted(s.a, session, request(t, "job", "orders"))
	s.inTransaction(t, "SELECT FROM holdfast.claims WHERE token = $1 FOR SHARE", run.Token)
	first, err := s.a.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Rollback(context.Background()) //nolint:errcheck // its backend was ended
	got := make(chan error, 1)
	go func() {
		_, err := first.Exec(t.Context(), awaitClaim, run.Token)
		got <- err
	}()
	s.await("a wait for a lock", "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = "+
		"current_database() AND application_name = 'a' AND wait_event_type = 'Lock')")
	s.expire(session)
	if swept, err := s.b.Sweep(t.Context()); err != nil || swept.Ended != 2 {
		t.Errorf("sweep: %+v, %v, want two ended transactions", swept, err)
	}
	if err := <-got; err == nil {
		t.Error("the first waiter got the claim")
	}
}

// A replica that froze after it had locked the claim does not stop the sweeps of others.
func TestSweepEndsThatOfAFrozenReplica(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	run := s.granted(s.a, session, request(t, "job", "orders"))
	s.inTransaction(t, lockClaim, run.Token) // and its process stops
	s.expire(session)
	if swept, err := s.b.Sweep(t.Context()); err != nil || swept.Ended != 1 {
		t.Errorf("sweep: %+v, %v, want one ended transaction", swept, err)
	}
}

// A job's transaction that itself waits for a lock is ended like any other.
func TestSweepEndsATransactionThatWaits(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	run := s.granted(s.a, session, request(t, "job", "orders"))
	s.exec("SELECT pg_advisory_lock(7)")
	tx, err := s.a.work.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background()) //nolint:errcheck // its backend was ended
	if _, err := tx.Exec(t.Context(), "SELECT FROM holdfast.claims WHERE token = $1 FOR SHARE",
		run.Token); err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		_, err := tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock(7)")
		got <- err
	}()
	s.await("a wait for a lock", "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = "+
		"current_database() AND application_name = 'a' AND wait_event_type = 'Lock')")
	s.expire(session)
	if swept, err := s.b.Sweep(t.Context()); err != nil || swept.Ended != 1 {
		t.Fatalf("sweep: %+v, %v, want one ended transaction", swept, err)
	}
	if err := <-got; err == nil {
		t.Error("the transaction got its lock")
	}
}

// The same for a program that has locks.
func TestSessionPinnedByAGrantReceivedInPartIsSwept(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.locks(s.a, "a")
	token := s.hold(s.a, session, lockRequest(t, "path:a"))
	s.receivedInPart(holdSession, session)
	s.b.pinnedAfter = 0
	s.expire(session)
	if released, err := s.b.Grants().Sweep(t.Context()); err != nil || len(released) != 0 {
		t.Fatalf("first sweep: %+v, %v", released, err)
	}
	released, err := s.b.Grants().Sweep(t.Context())
	if err != nil || len(released) != 1 || released[0].Token != token {
		t.Fatalf("second sweep: %+v, %v", released, err)
	}
}

// A young transaction is a concurrent start or sweep, which ends by itself.
func TestSweepDoesNotEndAYoungTransaction(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	s.receivedInPart(holdSession, session)
	s.exec("UPDATE holdfast.sessions SET expires_at = clock_timestamp() - interval '1 hour' "+
		"WHERE id = $1", session)
	s.b.pinnedAfter, s.b.lockTimeout = time.Minute, "100ms"
	if swept, err := s.b.Sweep(t.Context()); err != nil || swept.Ended != 0 {
		t.Errorf("sweep beside a young transaction: %+v, %v", swept, err)
	}
}
