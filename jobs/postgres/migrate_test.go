package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

// A replica that stops in the middle of a migration must not hold tables locked: neither running
// nor starting replicas could proceed.
func TestReplicaThatStopsDuringAMigrationHoldsNoLock(t *testing.T) {
	t.Parallel()
	empty := emptyDatabase(t)
	proxy := servertest.NewProxy(t, server.Addr())
	var stopped atomic.Bool
	locking := make(chan struct{})
	proxy.OnRequest(func(request []byte) servertest.Fate {
		if stopped.Load() {
			return servertest.Drop
		}
		if bytes.Contains(request, []byte("migrate holdfast.meta")) &&
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
		t.Errorf("migrate while another replica has stopped in its migration: %v", err)
	} else {
		s.Close()
	}
	cancel()
	<-ended
}

// A migration that rewrites a table locks out its readers, for minutes where the history is long.
func TestMigrationsRewriteNoTable(t *testing.T) {
	t.Parallel()
	empty := emptyDatabase(t)
	conn, err := pgx.Connect(t.Context(), empty)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background()) //nolint:errcheck // the test is over
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

// Two replicas apply a second migration at once. Its statement would fail if both applied it. A
// migration that fails leaves the schema as it was.
func TestSecondMigration(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	files := fstest.MapFS{}
	for number := 1; number <= schemaVersion; number++ {
		files[fmt.Sprintf("migrations/%04d_applied.sql", number)] = &fstest.MapFile{}
	}
	next := schemaVersion + 1
	name := fmt.Sprintf("migrations/%04d_made_up.sql", next)
	files[name] = &fstest.MapFile{Data: []byte(`
ALTER TABLE holdfast.runs ADD COLUMN made_up text NOT NULL DEFAULT 'x';
INSERT INTO holdfast.no_such_table VALUES (1);`)}
	if err := migrate(t.Context(), s.a.pool, files, next, s.a.log); err == nil {
		t.Fatal("migration that fails: got success, want an error")
	}
	files[name] = &fstest.MapFile{Data: []byte(
		"ALTER TABLE holdfast.runs ADD COLUMN made_up text NOT NULL DEFAULT 'y';")}
	done := make(chan error, 2)
	for _, store := range []*Store{s.a, s.b} {
		go func() { done <- migrate(t.Context(), store.pool, files, next, store.log) }()
	}
	if err := errors.Join(<-done, <-done); err != nil {
		t.Fatal(err)
	}
	if n := query[int](s, "SELECT version FROM holdfast.meta"); n != next {
		t.Errorf("version %d, want %d", n, next)
	}
	if n := query[int](s, `SELECT count(*) FROM information_schema.columns
WHERE table_schema = 'holdfast' AND table_name = 'runs' AND column_name = 'made_up'`); n != 1 {
		t.Errorf("%d columns added, want 1", n)
	}
}

// emptyDatabase returns the URL of a database without a schema.
func emptyDatabase(t *testing.T) string {
	t.Helper()
	if server == nil {
		t.Skip("needs PostgreSQL: run without -short")
	}
	return server.Database(t)
}
