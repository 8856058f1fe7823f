package handlers_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// fixture is a store in its own file, with a session and a table.
type fixture struct {
	store   *sqlite.Store
	file    *sql.DB
	session uuid.UUID
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	path := filepath.Join(t.TempDir(), "holdfast.db")
	store, err := sqlite.Open(t.Context(), path,
		sqlite.Options{Exclusive: true, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	file, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	f := fixture{store: store, file: file, session: uuid.New()}
	if err := store.Open(t.Context(),
		storage.Session{ID: f.session, Replica: "a", TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Exec(
		"CREATE TABLE sales (id INTEGER PRIMARY KEY, item TEXT, price)"); err != nil {
		t.Fatal(err)
	}
	return f
}

// run starts a firing and returns its run.
func (f fixture) run(t *testing.T) *jobs.Run {
	t.Helper()
	request := storage.StartRequest{Run: uuid.New(),
		Firing: storage.Firing{Job: "j", ScheduledAt: time.Now().UTC().Truncate(time.Second),
			Key: uuid.NewString()},
		Attempt: 1, WaitSince: time.Now()}
	results, err := f.store.Start(t.Context(), f.session, []storage.StartRequest{request})
	if err != nil || results[0].Outcome != storage.StartGranted {
		t.Fatalf("start: %v, %v", results, err)
	}
	return jobstest.StoredRun(f.store, request, results[0].Token)
}

func (f fixture) expectSales(t *testing.T, want ...string) {
	t.Helper()
	rows, err := f.file.Query("SELECT item || ' ' || typeof(price) || ' ' || price FROM sales " +
		"ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		got = append(got, line)
	}
	if err := rows.Err(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("sales %q (%v), want %q", got, err, want)
	}
}

func (f fixture) expectState(t *testing.T, run *jobs.Run, want jobs.State) storage.Record {
	t.Helper()
	record, err := f.store.Run(t.Context(), run.ID)
	if err != nil || record.State != want {
		t.Errorf("run is %s (%v), want %s", record.State, err, want)
	}
	return record
}

func TestSQLStatementWithArgs(t *testing.T) {
	f := newFixture(t)
	run := f.run(t)
	handle := mustBind(t, "sql",
		object{
			"statement": "INSERT INTO sales (id, item, price) VALUES (?1, ?2, ?3), (?1 + 1, ?2, ?4)",
			"args":      []any{9007199254740993, "pen", 1.5, true}})
	if err := handle(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	f.expectSales(t, "pen real 1.5", "pen integer 1")
	var id int64
	if err := f.file.QueryRow("SELECT min(id) FROM sales").Scan(&id); err != nil ||
		id != 9007199254740993 {
		t.Errorf("the large key came out as %d (%v)", id, err)
	}
	if record := f.expectState(t, run, jobs.Succeeded); record.Output != "statement 1: 2 rows\n" {
		t.Errorf("kept output %q", record.Output)
	}
}

func TestSQLStatementsAreAllOrNothing(t *testing.T) {
	f := newFixture(t)
	insert := "INSERT INTO sales (item, price) VALUES ('pen', 1)"
	run := f.run(t)
	err := mustBind(t, "sql",
		object{"statements": []string{insert, "UPDATE sales SET nothing = 1"}})(t.Context(), run)
	wantError(t, err, "sql: ", "statement 2: ", "nothing")
	f.expectSales(t)
	// the engine ends it, because it knows whether attempts are left
	f.expectState(t, run, jobs.Running)

	run = f.run(t)
	if err := mustBind(t, "sql",
		object{"statements": []string{insert, "UPDATE sales SET price = 2",
			"DELETE FROM sales WHERE price = 3"}})(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	f.expectSales(t, "pen integer 2")
	const output = "statement 1: 1 row\nstatement 2: 1 row\nstatement 3: 0 rows\n"
	if record := f.expectState(t, run, jobs.Succeeded); record.Output != output ||
		string(record.Result) != `{"rows_affected":[1,1,0]}` {
		t.Errorf("kept output %q and result %s", record.Output, record.Result)
	}
}

func TestSQLOfASupersededRun(t *testing.T) {
	f := newFixture(t)
	run := f.run(t)
	if err := f.store.Revoke(t.Context(), run.Token, jobs.Lost, reasons.ClaimLost); err != nil {
		t.Fatal(err)
	}
	err := mustBind(t, "sql", object{"statement": "INSERT INTO sales (item) VALUES ('late')"})(
		t.Context(), run)
	if !errors.Is(err, storage.ErrSuperseded) {
		t.Errorf("%v does not wrap ErrSuperseded", err)
	}
	f.expectSales(t)
	f.expectState(t, run, jobs.Lost)
}

func TestSQLEndsWithItsContext(t *testing.T) {
	f := newFixture(t)
	run := f.run(t)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, jobs.ErrTimeout)
	defer cancel()
	endless := "INSERT INTO sales (price) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + " +
		"1 FROM n) SELECT max(i) FROM n"
	err := mustBind(t, "sql", object{"statement": endless})(ctx, run)
	if !errors.Is(err, jobs.ErrTimeout) {
		t.Errorf("%v does not wrap the cause", err)
	}
	f.expectSales(t)
	f.expectState(t, run, jobs.Running)
}

func TestSQLWithoutAStore(t *testing.T) {
	wantError(t, mustBind(t, "sql", object{"statement": "SELECT 1"})(t.Context(), newRun("j")),
		"sql: the run has no store")
}

// sharing records whether scripts may share transactions.
type sharing struct {
	storage.RunStore
	scripts []storage.Script
}

func (s *sharing) RunStatements(_ context.Context, _ *jobs.Run,
	script storage.Script) ([]int64, error) {
	s.scripts = append(s.scripts, script)
	return nil, nil
}

func TestSQLPermitsASharedTransaction(t *testing.T) {
	store := &sharing{}
	run := jobstest.StoredRun(store, storage.StartRequest{Run: uuid.New()}, 1)
	for _, params := range []object{{"statement": "WITH a AS (SELECT 1) INSERT INTO b TABLE a"},
		{"statements": []string{"INSERT INTO a VALUES (1)", "/* b */ UPDATE a SET b = 1"},
			"share_transaction": true}} {
		if err := mustBind(t, "sql", params)(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
	if len(store.scripts) != 2 || store.scripts[0].Share || !store.scripts[1].Share ||
		len(store.scripts[1].Statements) != 2 {
		t.Errorf("got %+v, want permission for the second script only", store.scripts)
	}
}
