package servertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
)

// StartStandby starts a standby of the server, and returns once it accepts connections. From then
// on a commit of the server waits until the standby has it, so that a promotion loses none.
func (p *Postgres) StartStandby(ctx context.Context) (*Postgres, error) {
	standby, err := newPostgres("", p.settings)
	if err != nil {
		return nil, err
	}
	standby.ownsDir = true
	if standby.dir, err = os.MkdirTemp("", "standby-"); err != nil {
		return nil, fmt.Errorf("folder for PostgreSQL: %w", err)
	}
	if err := standby.follow(ctx, p); err != nil {
		return nil, errors.Join(err, standby.removeDir())
	}
	err = p.withConnection(ctx, func(ctx context.Context, conn *pgconn.PgConn) error {
		for _, statement := range []string{"ALTER SYSTEM SET synchronous_standby_names = '*'",
			"SELECT pg_reload_conf()"} {
			if err := execute(ctx, conn, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, standby.Stop())
	}
	return standby, nil
}

// follow copies the primary's data and starts the standby.
func (p *Postgres) follow(ctx context.Context, primary *Postgres) error {
	if err := p.prepareDir(); err != nil {
		return err
	}
	if err := p.command(ctx, p.credential, filepath.Join(p.bin, "pg_basebackup"), "--pgdata",
		p.dataDir(), "--host", loopback, "--port", strconv.Itoa(primary.port), "--username",
		"postgres", "--write-recovery-conf", "--checkpoint=fast", "--no-sync"); err != nil {
		return err
	}
	return p.startSomewhere(ctx)
}

// Promote makes a standby the primary, and returns once it accepts writes.
func (p *Postgres) Promote(ctx context.Context) error {
	return p.withConnection(ctx, func(ctx context.Context, conn *pgconn.PgConn) error {
		return execute(ctx, conn, "SELECT pg_promote()")
	})
}
