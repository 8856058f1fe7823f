package postgres

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

// A replica that stops in the middle of a migration must not hold tables locked:
// neither replicas that run nor those that start would get any further.
func TestReplicaThatStopsWhileItMigratesHoldsNoLock(t *testing.T) {
	t.Parallel()
	empty := emptyDatabase(t)
	proxy := servertest.NewProxy(t, server.Addr())
	var stopped atomic.Bool
	locking := make(chan struct{})
	proxy.OnRequest(func(request []byte) servertest.Fate {
		if stopped.Load() {
			return servertest.Drop
		}
		if bytes.Contains(request, []byte("holdfast migrations")) &&
			stopped.CompareAndSwap(false, true) {
			close(locking)
		}
		return servertest.Pass
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if s, err := Open(ctx, Options{URL: strings.Replace(empty, server.Addr(), proxy.Addr(), 1),
			Migrate: true, Log: zerolog.Nop()}); err == nil {
			s.Close()
		}
	}()
	<-locking
	bounded, end := context.WithTimeout(t.Context(), 20*time.Second)
	defer end()
	s, err := Open(bounded, Options{URL: empty, Migrate: true, Log: zerolog.Nop()})
	if err != nil {
		t.Errorf("migration beside one that stopped: %v", err)
	} else {
		s.Close()
	}
	cancel()
	<-ended
}

// A migration that rewrites a table locks out all who read it for as long as
// that takes, which for a long history is minutes.
func TestMigrationsRewriteNoTable(t *testing.T) {
	empty := emptyDatabase(t)
	conn, err := pgx.Connect(t.Context(), empty)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background()) //nolint:errcheck // nothing is lost
	if _, err := conn.Exec(t.Context(), `
CREATE FUNCTION public.refuse_rewrite() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'table % would be rewritten', pg_event_trigger_table_rewrite_oid()::regclass;
END $$;
CREATE EVENT TRIGGER refuse_rewrite ON table_rewrite EXECUTE FUNCTION public.refuse_rewrite()`); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Options{URL: empty, Migrate: true, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

// emptyDatabase returns the URL of a database without a schema.
func emptyDatabase(t *testing.T) string {
	t.Helper()
	if server == nil {
		t.Skip("needs PostgreSQL: run without -short")
	}
	return server.Database(t)
}
