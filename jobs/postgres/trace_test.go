package postgres

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
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
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	own := &dbPool{Pool: pool, schema: DefaultSchema}
	s := &Store{schema: DefaultSchema, pool: own, views: own, log: zerolog.Nop(), lockTimeout: "1s"}
	s.triggers = newTriggerBatcher(s)
	return s
}

// openProxied opens store a through a proxy that can drop replies.
func openProxied(t *testing.T, url string) (*Store, *servertest.Proxy) {
	t.Helper()
	proxy := servertest.NewProxy(t, server.Addr())
	return openAs(t, strings.Replace(url, server.Addr(), proxy.Addr(), 1), "a"), proxy
}
