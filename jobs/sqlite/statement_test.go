package sqlite_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs/sqlite"
)

func TestStatementsBeyondTheTransactionAreRefused(t *testing.T) {
	for _, sql := range []string{
		"BEGIN", "begin immediate", "COMMIT", "commit;", "END", "end transaction", "ROLLBACK",
		"rollback to x", "SAVEPOINT x", "RELEASE x",
		"ATTACH 'other.db' AS o", "DETACH o", "PRAGMA foreign_keys = 0", "VACUUM",
		"  \n\tCOMMIT", ";COMMIT", " ; ; COMMIT", "-- a comment\nCOMMIT",
		"/* a */ /* b ; */ COMMIT", "/**/COMMIT", "--\n--\nCommit", "\ufeffCOMMIT",
		"COMMIT/**/", "COMMIT--",
	} {
		if err := sqlite.CheckStatement(sql); !errors.Is(err, sqlite.ErrTransactionControl) {
			t.Errorf("%q: %v, want ErrTransactionControl", sql, err)
		}
	}
}

func TestSeveralStatementsInOneStringAreRefused(t *testing.T) {
	for _, sql := range []string{
		"SELECT 1; COMMIT", "SELECT 1;COMMIT;", "SELECT ';'; COMMIT", "SELECT 1; -- x\nCOMMIT",
		"SELECT 1 /* ; */ ; DELETE FROM t", "SELECT 'it''s'; SELECT 2",
		`SELECT "a;b" ; COMMIT`, "SELECT [a;b] ; COMMIT", "SELECT `a;b` ; COMMIT",
		"SELECT 1;;COMMIT",
		"CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; END; COMMIT",
		"CREATE TEMP TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; END; COMMIT",
		"CREATE TABLE trigger_x (a); COMMIT", "CREATE TABLE a AS SELECT 1 AS trigger; COMMIT",
	} {
		if err := sqlite.CheckStatement(sql); err == nil ||
			errors.Is(err, sqlite.ErrTransactionControl) ||
			!strings.Contains(err.Error(), "one statement") {
			t.Errorf("%q: %v, want a refusal of several statements", sql, err)
		}
	}
}

func TestOrdinaryStatementsAreNotRefused(t *testing.T) {
	for _, sql := range []string{
		"SELECT 1", "SELECT 1;", "SELECT 1 ; -- done; really\n", "SELECT 1; /* ; */ ;",
		"INSERT INTO t VALUES ('a;b')", `DELETE FROM "commit;"`, "UPDATE t SET a = 'COMMIT'",
		"-- BEGIN\nSELECT 1", "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x",
		"CREATE TABLE t (a, begin_at, end_at)", "SELECT committed FROM t",
		"CREATE TRIGGER x AFTER INSERT ON t BEGIN INSERT INTO u VALUES (1); DELETE FROM v; END",
		"SELECT 'it''s; fine'",
		"CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT CASE WHEN 1 THEN 2 END; END;",
		"SELECT CASE WHEN 1 THEN 2 END", "REPLACE INTO t VALUES (?)",
	} {
		if err := sqlite.CheckStatement(sql); err != nil {
			t.Errorf("%q: %v", sql, err)
		}
	}
}

func TestEmptyStatementIsRefused(t *testing.T) {
	for _, sql := range []string{"", " ", ";", "-- nothing", "/* nothing", "/*"} {
		if err := sqlite.CheckStatement(sql); err == nil {
			t.Errorf("%q was not refused", sql)
		}
	}
}
