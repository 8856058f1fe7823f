package holdfasttest

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/jobs/sqlite"
)

// SQLite returns an empty SQLite database in memory and runs the statements in it. The database is
// closed at the end of the test. It has one connection: a query that begins while the handler has a
// transaction waits for the end of the transaction.
func SQLite(t testing.TB, statements ...string) *sql.DB {
	t.Helper()
	db, err := sqlite.OpenInMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close the database of the test: %v", err)
		}
	})
	execSQLite(t, db, statements)
	return db
}

func execSQLite(t testing.TB, db *sql.DB, statements []string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// BeginTx begins a transaction on a PostgreSQL pool and runs the statements in it. It is rolled
// back at the end of the test, in a function of t.Cleanup.
//
// A test with a pool of its own closes the pool in a function of t.Cleanup too, before it calls
// BeginTx:
//
//	t.Cleanup(pool.Close)
//	tx := holdfasttest.BeginTx(t, pool)
//
// A deferred Close would wait for the transaction for ever, because deferred calls come before
// those of t.Cleanup.
//
// If the context of a handler ends during a statement, pgx closes the connection, and the
// transaction of the test is gone with it.
func BeginTx(t testing.TB, pool *pgxpool.Pool, statements ...string) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	return prepared(t, tx, err, statements)
}

// BeginTxAt is [BeginTx] on a connection of its own, to the database of a libpq URL.
func BeginTxAt(t testing.TB, url string, statements ...string) pgx.Tx {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatalf("connect to the database of the test: %v", err)
	}
	t.Cleanup(func() {
		if err := conn.Close(context.Background()); err != nil {
			t.Errorf("close the connection of the test: %v", err)
		}
	})
	tx, err := conn.Begin(t.Context())
	return prepared(t, tx, err, statements)
}

// prepared returns the transaction after the statements.
func prepared(t testing.TB, tx pgx.Tx, err error, statements []string) pgx.Tx {
	t.Helper()
	if err != nil {
		t.Fatalf("begin the transaction of the test: %v", err)
	}
	t.Cleanup(func() {
		err := tx.Rollback(context.Background())
		if err != nil && !errors.Is(err, pgx.ErrTxClosed) && !tx.Conn().IsClosed() {
			t.Errorf("roll back the transaction of the test: %v", err)
		}
	})
	execTx(t, tx, statements)
	return tx
}

func execTx(t testing.TB, tx pgx.Tx, statements []string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := tx.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}
