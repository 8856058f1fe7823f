package sqlite_test

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs/sqlite"
)

// cached returns the cached statements of the pool's only connection, and their texts.
func cached(t testing.TB, pool *sql.DB) map[any]string {
	t.Helper()
	statements, err := sqlite.CachedStatements(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	return statements
}

func TestRepeatedStartAndFinishPrepareNothing(t *testing.T) {
	s := open(t)
	session := openSession(t, s)
	startFinish(t, s, session, 1)
	first := cached(t, s.Writer())
	for range 3 {
		startFinish(t, s, session, 1)
	}
	if again := cached(t, s.Writer()); len(first) == 0 || !maps.Equal(first, again) {
		t.Errorf(
			"%d statements are cached after the first start and finish, %d after more, or others",
			len(first), len(again))
	}
}

func pool(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sqlite.OpenPool(filepath.Join(t.TempDir(), "a.db"))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func execute(t *testing.T, db *sql.DB, text string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), text, args...); err != nil {
		t.Fatal(err)
	}
}

// row1 returns the only row of the query, as text.
func row1(t *testing.T, db *sql.DB, query string, args ...any) string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil || !rows.Next() {
		t.Fatalf("%s: %v, %v", query, err, rows.Err())
	}
	values, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	if err := rows.Scan(into...); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(columns, values)
}

// A cached statement must behave like a newly prepared one: with the current columns of the
// table, and without arguments of its last use.
func TestCachedStatementSeesSchemaChanges(t *testing.T) {
	db := pool(t)
	execute(t, db, "CREATE TABLE a (x)")
	execute(t, db, "INSERT INTO a VALUES (1)")
	for _, step := range []struct{ change, want string }{
		{"SELECT 1", "[x] [{1 true}]"},
		{"ALTER TABLE a ADD COLUMN y DEFAULT 2", "[x y] [{1 true} {2 true}]"},
		{"ALTER TABLE a RENAME COLUMN x TO z", "[z y] [{1 true} {2 true}]"},
		{"CREATE INDEX a_z ON a (z)", "[z y] [{1 true} {2 true}]"},
		{"ALTER TABLE a DROP COLUMN y", "[z] [{1 true}]"},
	} {
		execute(t, db, step.change)
		if got := row1(t, db, "SELECT * FROM a WHERE ?1 = 1", 1); got != step.want {
			t.Errorf("after %s: got %s, want %s", step.change, got, step.want)
		}
	}
	execute(t, db, "DROP TABLE a")
	if rows, err := db.QueryContext(t.Context(), "SELECT * FROM a WHERE ?1 = 1", 1); err == nil {
		rows.Close()
		t.Error("query of a dropped table: got success, want an error")
	}
}

func TestCachedStatementWorksAfterAFailure(t *testing.T) {
	db := pool(t)
	execute(t, db, "CREATE TABLE a (x INTEGER PRIMARY KEY)")
	const insert = "INSERT INTO a VALUES (?1)"
	execute(t, db, insert, 1)
	if _, err := db.ExecContext(t.Context(), insert, 1); err == nil {
		t.Fatal("second insert of a key: got success, want an error")
	}
	if _, err := db.ExecContext(t.Context(), insert); err == nil {
		t.Fatal("missing argument: got success, want an error")
	}
	execute(t, db, insert, 2)
	if got := row1(t, db,
		"SELECT count(*) AS n, max(x) AS x FROM a"); got != "[n x] [{2 true} {2 true}]" {
		t.Errorf("got %s", got)
	}
}

// Open rows, and a statement of the same text inside their loop, must not share a statement.
func TestStatementInUseIsNotShared(t *testing.T) {
	db := pool(t)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it wrote nothing
	const query = "WITH n (i) AS (VALUES (1), (2), (3)) SELECT i FROM n WHERE i > ?1"
	for round := range 2 { // the second finds both statements of the first
		var pairs []string
		outer := numbers(t, tx, query, 0, func(i int) {
			numbers(t, tx, query, i, func(j int) { pairs = append(pairs, fmt.Sprint(i, j)) })
		})
		if want := []string{"1 2", "1 3", "2 3"}; outer != 3 || !slices.Equal(pairs, want) {
			t.Errorf("round %d: %d rows and pairs %q, want 3 and %q", round, outer, pairs, want)
		}
	}
}

func numbers(t *testing.T, tx *sql.Tx, query string, above int, each func(int)) (count int) {
	t.Helper()
	rows, err := tx.QueryContext(t.Context(), query, above)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for ; rows.Next(); count++ {
		var i int
		if err := rows.Scan(&i); err != nil {
			t.Fatal(err)
		}
		each(i)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return count
}

func TestCachedStatementsAreBounded(t *testing.T) {
	db := pool(t)
	for i := range 2 * sqlite.MaxPrepared {
		row1(t, db, "SELECT 'used all the time'")
		row1(t, db, fmt.Sprintf("SELECT %d", i))
	}
	row1(t, db, "SELECT length('"+strings.Repeat("x", sqlite.MaxPreparedText)+"')")
	texts := slices.Collect(maps.Values(cached(t, db)))
	if len(texts) != sqlite.MaxPrepared {
		t.Errorf("%d statements are cached, want %d", len(texts), sqlite.MaxPrepared)
	}
	for text, want := range map[string]bool{
		"SELECT 'used all the time'":                     true,
		fmt.Sprintf("SELECT %d", 2*sqlite.MaxPrepared-1): true,
		fmt.Sprintf("SELECT %d", sqlite.MaxPrepared):     false,
		"SELECT 0": false,
	} {
		if got := slices.Contains(texts, text); got != want {
			t.Errorf("%s: cached is %v, want %v", text, got, want)
		}
	}
	for _, text := range texts {
		if len(text) > sqlite.MaxPreparedText {
			t.Errorf("a statement of %d bytes is cached", len(text))
		}
	}
}

// A connection with open statements stays open, and SQLite then leaves its write-ahead log behind.
func TestCachedStatementsAreClosedWithTheStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast.db")
	s := openAt(t, path)
	startFinish(t, s, openSession(t, s), 1)
	if len(cached(t, s.Writer())) == 0 {
		t.Fatal("cached statements: got none, want some")
	}
	s.Close()
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("write-ahead log of a store that was closed: %v, want it to be gone", err)
	}
}
