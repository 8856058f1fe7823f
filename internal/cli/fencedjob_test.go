package cli

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/fence"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestFencedJob runs an sql job in a PostgreSQL database beside a SQLite store. Its run waits while
// the tables of the fence are missing.
func TestFencedJob(t *testing.T) {
	warehouse, conn := newWarehouse(t)
	replica, config := startReplica(t, withRollup("sqlite://"+filepath.ToSlash(
		filepath.Join(t.TempDir(), "holdfast.db")), warehouse))
	started, err := replica.Operations().Trigger(t.Context(), storage.Action{Actor: "anna"},
		storage.TriggerRequest{Job: "rollup"})
	if err != nil {
		t.Fatal(err)
	}
	waiting := storage.Record{}
	for waiting.Reason != reasons.DatabaseUnavailable {
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		waiting, err = replica.Operations().Wait(short, started.ID)
		cancel()
		if err == nil {
			t.Fatalf("the run did not wait: %+v", waiting)
		}
	}
	if waiting.State != jobs.Waiting {
		t.Errorf("got a run that is %s, want a waiting one", waiting.State)
	}
	for path, want := range map[string]string{"/api/v1/status": `"kind":"database"`,
		"/metrics": `holdfast_database_up{database="warehouse"} 0`} {
		text := ""
		// The status shows a database that is not available after 10 s.
		for end := time.Now().Add(30 * time.Second); !strings.Contains(text, want); {
			if time.Now().After(end) {
				t.Fatalf("got %s from %s, want %s", text, path, want)
			}
			time.Sleep(50 * time.Millisecond)
			text = strings.ReplaceAll(fetch(t, "http://"+replica.AdminAddr()+path), `": "`, `":"`)
		}
	}
	database, err := app.OpenJobDatabase(t.Context(), config, "warehouse", nil, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(database.InstallFence(t.Context()), database.Close()); err != nil {
		t.Fatal(err)
	}
	run, err := replica.Operations().Wait(t.Context(), started.ID)
	if err != nil {
		t.Fatal(err)
	}
	if run.State != jobs.Succeeded || string(run.Result) != `{"rows_affected":[1]}` {
		t.Errorf("got %s, %s, result %s, want one row", run.State, run.Error, run.Result)
	}
	var name string
	var token int64
	if err := conn.QueryRow(t.Context(), "SELECT name, token FROM holdfast_fence.tokens "+
		"WHERE name LIKE 'table:%/%' AND part = 0").Scan(&name, &token); err != nil ||
		name != "table:warehouse:public/rollup" || token != int64(run.Token) {
		t.Errorf("got the name %s with token %d, %v, want that of the run, %d", name, token, err,
			run.Token)
	}
}

// fetch returns the answer to a GET request.
func fetch(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// newWarehouse returns a PostgreSQL database with a table rollup, and a connection to it.
func newWarehouse(t *testing.T) (url string, conn *pgx.Conn) {
	t.Helper()
	if server == nil {
		t.Skip("needs PostgreSQL: run without -short")
	}
	url = server.Database(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), "CREATE TABLE rollup (at timestamptz)"); err != nil {
		t.Fatal(err)
	}
	return url, conn
}

// withRollup returns the configuration of an sql job in the database warehouse.
func withRollup(store, warehouse string) string {
	return `
database: {url: '` + store + `'}
databases: {warehouse: {url: '` + warehouse + `'}}
admin: {listen: "127.0.0.1:0"}
jobs:
  - name: rollup
    handler: sql
    database: warehouse
    tables: [rollup]
    params: {statement: "INSERT INTO rollup VALUES (@scheduled_at)"}
`
}

// TestFencedJobOfTwoActors triggers an sql job twice with the same key for the same time. The
// actors differ, so these are two firings, and the job runs for each.
func TestFencedJobOfTwoActors(t *testing.T) {
	for name, newStore := range map[string]func(t *testing.T) string{
		"SQLite": func(t *testing.T) string {
			return "sqlite://" + filepath.ToSlash(filepath.Join(t.TempDir(), "holdfast.db"))
		},
		"PostgreSQL": func(t *testing.T) string { return server.Database(t) },
	} {
		t.Run(name, func(t *testing.T) {
			warehouse, conn := newWarehouse(t)
			if err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
				return fence.Install(t.Context(), fence.Pgx(tx))
			}); err != nil {
				t.Fatal(err)
			}
			replica, _ := startReplica(t, withRollup(newStore(t), warehouse))
			at := time.Now()
			for _, actor := range []string{"ann", "bob"} {
				started, err := replica.Operations().Trigger(t.Context(),
					storage.Action{Actor: actor},
					storage.TriggerRequest{Job: "rollup", Key: "k", At: at})
				if err != nil {
					t.Fatal(err)
				}
				run, err := replica.Operations().Wait(t.Context(), started.ID)
				if err != nil {
					t.Fatal(err)
				}
				if run.State != jobs.Succeeded || run.KeyActor != actor ||
					string(run.Result) != `{"rows_affected":[1]}` {
					t.Errorf("%s: got %s, the actor %q and the result %s, want one row", actor,
						run.State, run.KeyActor, run.Result)
				}
			}
			var rows int
			if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM rollup").
				Scan(&rows); err != nil || rows != 2 {
				t.Errorf("got %d rows, %v, want one for each actor", rows, err)
			}
		})
	}
}

// startReplica runs a replica until the end of the test.
func startReplica(t *testing.T, text string) (*app.Replica, *configs.Config) {
	t.Helper()
	config, err := configs.Parse("holdfast.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	log := zerolog.Nop()
	replica, err := app.New(config, app.Options{Log: &log, Page: admin.Page,
		Connection: app.Connection{Driver: sqlite.Driver}})
	if err != nil {
		t.Fatal(err)
	}
	if err := replica.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- replica.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for replica.Ready(ctx) != nil { // a ready replica has stored its jobs
		time.Sleep(10 * time.Millisecond)
	}
	return replica, config
}
