package fence

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// servers are those that TestMain started; nil with -short.
var (
	postgres *servertest.Postgres
	mariadb  *servertest.MariaDB
)

func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		if err := runChild(context.Background(), text); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		return
	}
	code := servertest.Main(m, func(p *servertest.Postgres) {
		postgres = p
		var err error
		if mariadb, err = servertest.StartMariaDB(context.Background()); err != nil {
			panic(err)
		}
	})
	if mariadb != nil {
		if err := mariadb.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// target is a database with the tables of the fence and a table log of the tests.
type target struct {
	db      *sql.DB
	dialect Dialect
	driver  string // of openTarget
	source  string
	// isolation of transactions that a test begins itself
	isolation sql.IsolationLevel
}

// onEach runs a test on each kind of database.
func onEach(t *testing.T, test func(t *testing.T, on *target)) {
	t.Helper()
	t.Run("postgres", func(t *testing.T) { test(t, newPostgres(t)) })
	t.Run("mariadb", func(t *testing.T) { test(t, newMariaDB(t)) })
	t.Run("mariadb read committed", func(t *testing.T) {
		on := newMariaDB(t)
		on.isolation = sql.LevelReadCommitted
		test(t, on)
	})
}

func newPostgres(t testing.TB) *target {
	t.Helper()
	if postgres == nil {
		t.Skip("needs PostgreSQL: run without -short")
	}
	return newTarget(t, "pgx", postgres.Database(t), Postgres())
}

func newMariaDB(t testing.TB) *target {
	t.Helper()
	if mariadb == nil {
		t.Skip("needs MariaDB: run without -short")
	}
	name := "d" + strings.ReplaceAll(uuid.NewString(), "-", "")
	source := "root@tcp(" + mariadb.Addr() + ")/"
	admin, err := sql.Open("mysql", source)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return newTarget(t, "mysql", source+name, MariaDB())
}

func newTarget(t testing.TB, driver, source string, d Dialect) *target {
	t.Helper()
	on := openTarget(t, driver, source, d)
	tx := on.begin(t)
	if err := Install(t.Context(), SQL(tx, d)); err != nil {
		t.Fatal(err)
	}
	kind := "bigint GENERATED ALWAYS AS IDENTITY"
	if driver == "mysql" {
		kind = "bigint AUTO_INCREMENT"
	}
	if _, err := tx.ExecContext(t.Context(), "CREATE TABLE log (id "+kind+
		" PRIMARY KEY, name varchar(100), token bigint)"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	return on
}

// openTarget connects to a database whose tables exist.
func openTarget(t testing.TB, driver, source string, d Dialect) *target {
	t.Helper()
	on, err := connect(driver, source, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := on.db.Close(); err != nil {
			t.Error(err)
		}
	})
	return on
}

func connect(driver, source string, d Dialect) (*target, error) {
	db, err := sql.Open(driver, source)
	return &target{db: db, dialect: d, driver: driver, source: source}, err
}

// through returns the target with connections through a proxy.
func (on *target) through(t *testing.T) (*target, *servertest.Proxy) {
	t.Helper()
	addr := mariadb.Addr()
	if on.driver == "pgx" {
		addr = postgres.Addr()
	}
	proxy := servertest.NewProxy(t, addr)
	return openTarget(t, on.driver, strings.Replace(on.source, addr, proxy.Addr(), 1),
		on.dialect), proxy
}

// begin begins a transaction, which the test rolls back at its end.
func (on *target) begin(t testing.TB) *sql.Tx {
	t.Helper()
	tx, err := on.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: on.isolation})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// pool returns a pool of pgx to a PostgreSQL target.
func (on *target) pool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), on.source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// write adds a row to the table log.
func (on *target) write(ctx context.Context, tx *sql.Tx, name string, token jobs.Token) error {
	_, err := tx.ExecContext(ctx, on.dialect.in("INSERT INTO log (name, token) VALUES (?, ?)"),
		name, int64(token))
	return err
}

// writer returns a function for DoSQL that adds a row to the table log.
func (on *target) writer(t *testing.T, name string, token jobs.Token) func(tx *sql.Tx) error {
	return func(tx *sql.Tx) error { return on.write(t.Context(), tx, name, token) }
}

// addNames adds the names that the run locks to the fence, so that they are not new.
func (on *target) addNames(t *testing.T, run *jobs.Run) {
	t.Helper()
	if err := addNames(t.Context(), run, func(ctx context.Context) (*opened, error) {
		return beginSQL(ctx, on.db, on.dialect, nil)
	}); err != nil {
		t.Fatal(err)
	}
}

// tokens returns the tokens in the table log, in the order of their rows.
func (on *target) tokens(t *testing.T, name string) []int64 {
	t.Helper()
	rows, err := on.db.QueryContext(t.Context(), on.dialect.in(
		"SELECT token FROM log WHERE name = ? ORDER BY id"), name)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var tokens []int64
	for rows.Next() {
		var token int64
		if err := rows.Scan(&token); err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return tokens
}

// awaitWaiting returns when one transaction more than before waits for a lock. It fails the test if
// done delivers first.
func (on *target) awaitWaiting(t *testing.T, done <-chan error) {
	t.Helper()
	for !on.waits(t) {
		select {
		case err := <-done:
			t.Fatalf("the transaction did not wait: %v", err)
		case <-t.Context().Done():
			t.Fatal("the transaction never waited")
		default:
		}
	}
}

// waits reports whether a transaction of this database waits for a lock.
func (on *target) waits(t *testing.T) bool {
	t.Helper()
	query := "SELECT EXISTS (SELECT 1 FROM pg_stat_activity " +
		"WHERE datname = current_database() AND wait_event_type = 'Lock')"
	if on.driver == "mysql" {
		query = "SELECT variable_value > 0 FROM information_schema.global_status " +
			"WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS'"
	}
	var waits bool
	if err := on.db.QueryRowContext(t.Context(), query).Scan(&waits); err != nil {
		t.Fatal(err)
	}
	return waits
}

// clusterOf returns the id of the test's own cluster.
func clusterOf(t testing.TB) uuid.UUID {
	return uuid.NewSHA1(uuid.Nil, []byte(t.Name()+processID))
}

// processID separates test binaries that share a server.
var processID = uuid.NewString()

// newRun returns a run of a job of its own with the locks. A lock such as "read public/orders" is
// shared, "public/orders" is exclusive, and "job:a" is the lock of a job on itself.
func newRun(cluster uuid.UUID, token jobs.Token, locks ...string) *jobs.Run {
	var requests []locking.Request
	for _, text := range locks {
		request := locking.Request{Mode: locking.Exclusive}
		path, shared := strings.CutPrefix(text, "read ")
		if shared {
			request.Mode = locking.Shared
		}
		var err error
		if !strings.HasPrefix(path, "job:") {
			path = "table:" + path
		}
		if request.Resource, err = locking.ParseKey(path); err != nil {
			panic(err)
		}
		requests = append(requests, request)
	}
	id := uuid.New()
	return jobs.Run{ID: id, Job: "job " + id.String(), ScheduledAt: time.Unix(1, 0), Attempt: 1,
		Token: token}.With(attempt.NewKey(), &storage.Attempt{Cluster: cluster,
		Locks: storage.LocksOf(requests), NewLog: zerolog.Nop, Output: output.NewTail(output.Max)})
}

// again returns a further attempt of the run, with its own token.
func again(run *jobs.Run, token jobs.Token) *jobs.Run {
	next, inside := *run, run.Internal(attempt.NewKey())
	next.Token, next.Attempt = token, run.Attempt+1
	return next.With(attempt.NewKey(), &storage.Attempt{Cluster: inside.Cluster,
		Locks: inside.Locks, NewLog: zerolog.Nop, Output: output.NewTail(output.Max)})
}
