package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// holdRows locks the rows that it selects until the test ends.
func (s *harness) holdRows(sql string, args ...any) {
	s.t.Helper()
	tx, err := s.b.pool.Begin(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := tx.Rollback(context.Background()); err != nil {
			s.t.Error(err)
		}
	})
	if _, err := tx.Exec(s.t.Context(), sql, args...); err != nil {
		s.t.Fatal(err)
	}
}

// expectHeld fails the test unless the error reports a held row: only then is it useful to split a
// batch.
func (s *harness) expectHeld(what string, err error) {
	s.t.Helper()
	if !errors.Is(err, storage.ErrRowHeld) || !errors.Is(err, storage.ErrUnavailable) {
		s.t.Errorf("%s: %v, want that a row is held", what, err)
	}
}

func TestBatchReportsALockedRow(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.a.lockTimeout = "50ms"
	session := s.session(s.a, "a")
	one := s.granted(s.a, session, request(t, "one", "orders"))
	two := s.granted(s.a, session, request(t, "two", "sales"))
	// as a job's own transaction does
	s.holdRows("SELECT FROM holdfast.claims WHERE token = $1 FOR SHARE", one.Token)
	s.holdRows("SELECT FROM holdfast.fences WHERE resource = 'table:public/orders' FOR SHARE")
	finish := func(run *jobs.Run) storage.FinishRequest {
		return storage.FinishRequest{Run: run.ID, Token: run.Token, State: jobs.Succeeded}
	}
	_, err := s.a.Finish(t.Context(), []storage.FinishRequest{finish(one), finish(two)})
	s.expectHeld("finish", err)
	if done, err := s.a.Finish(t.Context(), []storage.FinishRequest{finish(two)}); err != nil ||
		!done[0] {
		t.Errorf("finish of what is not held: %v, %v", done, err)
	}
	_, err = s.a.Start(t.Context(), session,
		[]storage.StartRequest{request(t, "three", "orders"), request(t, "four", "sales")})
	s.expectHeld("start", err)
	s.granted(s.a, session, request(t, "four", "sales"))
	s.expectHeld("revocation", s.a.Revoke(t.Context(), one.Token, jobs.Cancelled,
		reasons.Cancelled))
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.a.Finish(canceled, []storage.FinishRequest{finish(two)}); !errors.Is(err,
		storage.ErrUnavailable) || errors.Is(err, storage.ErrRowHeld) {
		t.Errorf("finish that was not sent: %v", err)
	}
}

// waiting records for each statement of a sweep's waiter whether it ran inside an explicit
// transaction: behind a pooler each transaction may have another backend.
type waiting struct{ inside map[string]bool }

func (w *waiting) note(conn *pgx.Conn, sql string) {
	if sql == backendID || sql == lockClaim {
		w.inside[sql] = conn.PgConn().TxStatus() == 'T'
	}
}

func (w *waiting) TraceQueryStart(ctx context.Context, conn *pgx.Conn,
	data pgx.TraceQueryStartData) context.Context {
	w.note(conn, data.SQL)
	return ctx
}
func (w *waiting) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (w *waiting) TraceBatchStart(ctx context.Context, conn *pgx.Conn,
	data pgx.TraceBatchStartData) context.Context {
	for _, query := range data.Batch.QueuedQueries {
		w.note(conn, query.SQL)
	}
	return ctx
}
func (w *waiting) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (w *waiting) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func TestSweepNamesTheBackendItWaitsIn(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	run := s.granted(s.a, session, request(t, "job", "orders"))
	s.expire(session)
	tx, err := s.b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background()) //nolint:errcheck // its backend was ended
	if _, err := tx.Exec(t.Context(), "SELECT FROM holdfast.claims FOR SHARE"); err != nil {
		t.Fatal(err)
	}
	held := tx.Conn().PgConn().PID()
	tracer := &waiting{inside: map[string]bool{}}
	sweeper := openTraced(t, s.url, 2, tracer)
	swept, err := sweeper.Sweep(t.Context())
	if err != nil || swept.Ended != 1 {
		t.Fatalf("sweep of token %d: %+v, %v", run.Token, swept, err)
	}
	if !tracer.inside[backendID] || !tracer.inside[lockClaim] {
		t.Errorf("inside a transaction: the backend's id %v, the wait %v", tracer.inside[backendID],
			tracer.inside[lockClaim])
	}
	// The backend that the sweep ended may be listed until it has exited.
	if n := query[int](s, "SELECT count(*) FROM pg_stat_activity WHERE datname = "+
		"current_database() AND state LIKE 'idle in transaction%' AND pid <> $1",
		int(held)); n != 0 {
		t.Errorf("got %d open transactions after the sweep, want none", n)
	}
	if swept, err = sweeper.Sweep(t.Context()); err != nil || len(swept.Lost) != 1 {
		t.Errorf("next sweep: %+v, %v", swept, err)
	}
}
