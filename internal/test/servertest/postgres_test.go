package servertest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

var server *servertest.Postgres

func TestMain(m *testing.M) {
	os.Exit(servertest.Main(m, func(pg *servertest.Postgres) { server = pg }))
}

func TestDatabasesAreSeparateAndDropped(t *testing.T) {
	skipWithShort(t)
	var dropped string
	t.Run("use", func(t *testing.T) {
		dropped = server.Database(t)
		run(t, connect(t, dropped), "CREATE TABLE a (n int)")
		run(t, connect(t, server.Database(t)), "CREATE TABLE a (n int)")
	})
	if conn, err := pgx.Connect(t.Context(), dropped); err == nil {
		conn.Close(t.Context())
		t.Error("database of an ended test: got it, want it dropped")
	}
}

func TestCloneCopiesTheTemplate(t *testing.T) {
	skipWithShort(t)
	model := fmt.Sprintf("model_%d", time.Now().UnixNano())
	if err := server.CreateDatabase(t.Context(), model, "template0"); err != nil {
		t.Fatal(err)
	}
	conn := connect(t, server.URL(model))
	run(t, conn, "CREATE TABLE a AS SELECT 7 AS n")
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := number(t, connect(t, server.Clone(t, model)), "SELECT n FROM a"); got != 7 {
		t.Errorf("the copy holds %d", got)
	}
}

func TestPostgresKeepsCommitsThroughKillAndRestart(t *testing.T) {
	pg := ownServer(t)
	url := pg.URL("postgres")
	run(t, connect(t, url), "CREATE TABLE a AS SELECT 1 AS n")
	if err := pg.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := pgx.Connect(t.Context(), url); err == nil {
		t.Fatal("a killed server accepts connections")
	}
	if err := pg.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	run(t, connect(t, url), "UPDATE a SET n = n + 1")
	if err := pg.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := number(t, connect(t, url), "SELECT n FROM a"); got != 2 {
		t.Errorf("the table holds %d", got)
	}
}

func TestPostgresPauseStopsOpenSessions(t *testing.T) {
	pg := ownServer(t)
	conn := connect(t, pg.URL("postgres"))
	if err := pg.Pause(); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.Background(), "SELECT 1")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("paused, it answered: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if err := pg.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Errorf("resumed: %v", err)
	}
}

func TestPostgresSettings(t *testing.T) {
	pg := ownServer(t, "fsync=on", "max_connections=17")
	conn := connect(t, pg.URL("postgres"))
	for name, want := range map[string]string{"fsync": "on", "max_connections": "17",
		"listen_addresses": "127.0.0.1"} {
		var got string
		if err := conn.QueryRow(t.Context(), "SELECT current_setting($1)", name).
			Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q (%v), want %q", name, got, err, want)
		}
	}
}

func TestPostgresInInaccessibleFolder(t *testing.T) {
	skipWithShort(t)
	if os.Geteuid() != 0 {
		t.Skip("only root runs the server as another user")
	}
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.MkdirAll(filepath.Join(closed, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := servertest.StartPostgres(t.Context(), filepath.Join(closed, "data"))
	if err == nil || !strings.Contains(err.Error(), closed) {
		t.Errorf("want an error that names %s, got %v", closed, err)
	}
}

func ownServer(t *testing.T, settings ...string) *servertest.Postgres {
	t.Helper()
	skipWithShort(t)
	pg, err := servertest.StartPostgres(t.Context(), "", settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.Stop(); err != nil {
			t.Error(err)
		}
	})
	return pg
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func run(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func number(t *testing.T, conn *pgx.Conn, query string) (n int) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}
