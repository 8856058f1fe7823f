package postgres

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// turns counts the round trips of a store.
type turns struct{ batches, queries int }

func (c *turns) TraceQueryStart(ctx context.Context, _ *pgx.Conn,
	_ pgx.TraceQueryStartData) context.Context {
	c.queries++
	return ctx
}
func (c *turns) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (c *turns) TraceBatchStart(ctx context.Context, _ *pgx.Conn,
	_ pgx.TraceBatchStartData) context.Context {
	c.batches++
	return ctx
}
func (c *turns) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (c *turns) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// openTraced opens a store whose connections are traced.
func openTraced(t *testing.T, url string, connections int32, tracer pgx.QueryTracer) *Store {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns, config.ConnConfig.Tracer = connections, tracer
	return openOn(t, config)
}

// openOn opens a store with the settings of a pool.
func openOn(t *testing.T, config *pgxpool.Config) *Store {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	own := &dbPool{Pool: pool, schema: DefaultSchema}
	s := &Store{schema: DefaultSchema, pool: own, work: own, views: own, log: zerolog.Nop(),
		lockTimeout: "1s", connector: connector{config}}
	s.triggers = newTriggerBatcher(s)
	return s
}

// openProxied opens store a through a proxy that can drop replies.
func openProxied(t *testing.T, url string) (*Store, *servertest.Proxy) {
	t.Helper()
	proxy := servertest.NewProxy(t, server.Addr())
	return openAs(t, strings.Replace(url, server.Addr(), proxy.Addr(), 1), "a"), proxy
}

// PostgreSQL sends each warning to the client at once, and writes it to its log. No batch may cause
// one, such as a SET LOCAL outside of BEGIN and COMMIT does.
func TestBatchesCauseNoWarning(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	config, err := pgxpool.ParseConfig(s.url)
	if err != nil {
		t.Fatal(err)
	}
	var notices []string
	config.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		notices = append(notices, n.Severity+": "+n.Message)
	}
	store, session := openOn(t, config), s.session(s.a, "a")
	run := s.granted(store, session, request(t, "job", "orders"))
	s.expect(s.start(store, session, request(t, "other", "orders")), storage.StartBlocked)
	skipped := skipOf(request(t, "skipped", "orders"))
	for _, skipped.New = range []bool{true, false} {
		if _, err := store.Note(t.Context(), session, []storage.Note{skipped}); err != nil {
			t.Fatal(err)
		}
	}
	s.finished(store, run)
	locks := s.locks(s.a, "b")
	s.release(store, s.hold(store, locks, lockRequest(t, "path:a")))
	if len(notices) > 0 {
		t.Errorf("PostgreSQL sent %q", notices)
	}
}
