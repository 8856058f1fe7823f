package servertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
)

// These environment variables name what the process that runs the test binaries has already started
// or created.
const (
	sharedVariable   = "HOLDFAST_TEST_POSTGRES" // host:port of the server for Main
	pristineVariable = "HOLDFAST_TEST_PGDATA"   // a data folder that StartPostgres copies
)

var errShared = errors.New("the server is shared with other packages: start one with StartPostgres")

// Shared is a PostgreSQL server that several test binaries share.
type Shared struct {
	postgres *Postgres
	pristine string
}

// StartShared starts a server with its files below dir, which must be empty. Test binaries that run
// with Environment use the server.
func StartShared(ctx context.Context, dir string, settings ...string) (*Shared, error) {
	data := filepath.Join(dir, "postgres")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, fmt.Errorf("folder for PostgreSQL: %w", err)
	}
	p, err := newPostgres(data, settings)
	if err != nil {
		return nil, err
	}
	s := &Shared{postgres: p, pristine: filepath.Join(dir, "pgdata")}
	if err := p.prepareDir(); err != nil {
		return nil, err
	}
	if err := p.initdb(ctx); err != nil {
		return nil, err
	}
	if err := p.command(ctx, nil, "cp", "-Rp", p.dataDir(), s.pristine); err != nil {
		return nil, err
	}
	return s, p.startSomewhere(ctx)
}

// Environment returns the variables that make test binaries use the server and its data folder.
func (s *Shared) Environment() []string {
	return []string{sharedVariable + "=" + s.postgres.Addr(), pristineVariable + "=" + s.pristine}
}

// PID returns the id of the server's process.
func (s *Shared) PID() int { return s.postgres.process.pid() }

// Stop ends the server. The caller removes its folder.
func (s *Shared) Stop() error { return s.postgres.Stop() }

// attach returns the server that the environment names, or nil if it names none.
func attach() (*Postgres, error) {
	addr := os.Getenv(sharedVariable)
	if addr == "" {
		return nil, nil
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sharedVariable, err)
	}
	p := &Postgres{shared: true, prefix: fmt.Sprintf("p%d_", os.Getpid()),
		idle: make(chan *pgconn.PgConn, 3)}
	if p.port, err = strconv.Atoi(port); err != nil {
		return nil, fmt.Errorf("%s: %w", sharedVariable, err)
	}
	return p, nil
}
