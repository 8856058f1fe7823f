package servertest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const statementLimit = 30 * time.Second

// Database creates an empty database for one test and returns its URL. The test drops it at its
// end.
func (p *Postgres) Database(t testing.TB) string {
	t.Helper()
	return p.Clone(t, "template0")
}

// Clone creates a database for one test as a copy of the database template, and returns its URL.
// The test drops it at its end. No client may be connected to template meanwhile.
func (p *Postgres) Clone(t testing.TB, template string) string {
	t.Helper()
	name := p.freshName()
	if err := p.CreateDatabase(t.Context(), name, template); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.dropDatabase(name); err != nil {
			t.Errorf("end of the test's database: %v", err)
		}
	})
	return p.URL(name)
}

// CreateDatabase creates a database as a copy of template, such as "template0". The database exists
// until the server stops. Use it to create the template of Clone.
func (p *Postgres) CreateDatabase(ctx context.Context, name, template string) error {
	return p.withConnection(ctx, func(ctx context.Context, conn *pgconn.PgConn) error {
		statement := "CREATE DATABASE " + identifier(p.databaseName(name)) +
			" TEMPLATE " + identifier(p.databaseName(template))
		if version(conn) >= fileCopyVersion {
			statement += " STRATEGY file_copy"
		}
		return execute(ctx, conn, statement)
	})
}

// fileCopyVersion is the first PostgreSQL version with the option STRATEGY. Copying files takes
// half the processor time of writing to the log, which has been the default since that version.
// Earlier versions always copy files.
const fileCopyVersion = 15

// version returns the major version of the server, or 0 if it is unknown.
func version(conn *pgconn.PgConn) int {
	major, _, _ := strings.Cut(conn.ParameterStatus("server_version"), ".")
	n, err := strconv.Atoi(major)
	if err != nil {
		return 0
	}
	return n
}

func (p *Postgres) freshName() string { return fmt.Sprintf("test_%d", p.databases.Add(1)) }

// databaseName returns the name of a database on the server. On a shared server, each test binary
// has a prefix of its own.
func (p *Postgres) databaseName(name string) string {
	switch name {
	case "postgres", "template0", "template1":
		return name
	}
	return p.prefix + name
}

// dropDatabase drops the database and ends its connections. If the test has stopped the server, the
// database remains.
func (p *Postgres) dropDatabase(name string) error {
	if !p.running() {
		return nil
	}
	statement := "DROP DATABASE " + identifier(p.databaseName(name)) + " WITH (FORCE)"
	return p.withConnection(context.Background(),
		func(ctx context.Context, conn *pgconn.PgConn) error {
			return execute(ctx, conn, statement)
		})
}

func identifier(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// withConnection calls do with a connection to the database postgres.
func (p *Postgres) withConnection(
	ctx context.Context, do func(context.Context, *pgconn.PgConn) error,
) (err error) {
	ctx, cancel := context.WithTimeout(ctx, statementLimit)
	defer cancel()
	conn, err := p.connection(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err == nil && p.keep(conn) {
			return
		}
		err = errors.Join(err, conn.Close(ctx))
	}()
	return do(ctx, conn)
}

// connection returns an idle connection, or a new one. The start of a backend takes about ten
// milliseconds of processor time, as much as many tests take in all.
func (p *Postgres) connection(ctx context.Context) (*pgconn.PgConn, error) {
	select {
	case conn := <-p.idle:
		return conn, nil
	default:
		return pgconn.Connect(ctx, p.URL("postgres"))
	}
}

// keep keeps the connection for later use if there is room.
func (p *Postgres) keep(conn *pgconn.PgConn) bool {
	select {
	case p.idle <- conn:
		return true
	default:
		return false
	}
}

// closeIdle closes the idle connections.
func (p *Postgres) closeIdle() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), statementLimit)
	defer cancel()
	for {
		select {
		case conn := <-p.idle:
			err = errors.Join(err, conn.Close(ctx))
		default:
			return err
		}
	}
}

func execute(ctx context.Context, conn *pgconn.PgConn, statement string) error {
	if _, err := conn.Exec(ctx, statement).ReadAll(); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}
