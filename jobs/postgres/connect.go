package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	connectTimeout = 5 * time.Second

	// Keepalives close a connection whose other end has vanished after about 25 s, at either end.
	keepAliveIdle     = 10 * time.Second
	keepAliveInterval = 5 * time.Second
	keepAliveCount    = 3
	tcpUserTimeout    = 20 * time.Second

	pingAfter = time.Second // the default of pgxpool

	// setKeepAlive sets the keepalives of PostgreSQL's end. It is a statement because a pooler
	// refuses connection parameters that it does not know.
	setKeepAlive = `SELECT set_config('tcp_keepalives_idle', '10', false),
		set_config('tcp_keepalives_interval', '5', false),
    set_config('tcp_keepalives_count', '3', false), set_config('tcp_user_timeout', '20000', false)`

	// setLocalKeepAlive is setKeepAlive for one transaction.
	setLocalKeepAlive = `SELECT set_config('tcp_keepalives_idle', '10', true),
		set_config('tcp_keepalives_interval', '5', true),
    set_config('tcp_keepalives_count', '3', true), set_config('tcp_user_timeout', '20000', true)`

	// readCommitted is the isolation level that the protocol needs.
	readCommitted = "read committed"
	readIsolation = `SELECT current_setting('transaction_isolation')`
)

// ErrIsolation reports that transactions are not read committed. The store requests this level when
// it connects, but a pooler may drop the request.
var ErrIsolation = errors.New("transactions are not read committed: set " +
	"default_transaction_isolation of the role or of the database, " +
	"where a pooler ignores it as a startup parameter")

// configure sets the parameters of each connection of the store.
func configure(config *pgx.ConnConfig) {
	dialer := &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle,
			Interval: keepAliveInterval, Count: keepAliveCount},
		Control: boundUnacknowledged,
	}
	config.DialFunc = dialer.DialContext
	configureSession(config)
}

// configureSession is configure without the network of this end.
func configureSession(config *pgx.ConnConfig) {
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	setDefault(config.RuntimeParams, "application_name", "holdfast")
	// In the protocol each statement must see all earlier commits, whatever the default of the
	// database is.
	config.RuntimeParams["default_transaction_isolation"] = readCommitted
	before := config.AfterConnect
	config.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if before != nil {
			if err := before(ctx, conn); err != nil {
				return err
			}
		}
		if err := conn.Exec(ctx, setKeepAlive).Close(); err != nil {
			return fmt.Errorf("settings of a connection: %w", err)
		}
		return nil
	}
}

// mayBeBroken reports whether a pool must ping a connection before it is used. A server that ends a
// connection closes it, and keepalives close it if the server has vanished. So the kernel knows
// which connections are broken, and a ping would only cost a round trip.
func mayBeBroken(_ context.Context, p pgxpool.ShouldPingParams) bool {
	return p.IdleDuration > pingAfter && !isSilent(p.Conn.PgConn().Conn())
}

// requireReadCommitted returns ErrIsolation unless transactions are read committed by default.
func requireReadCommitted(ctx context.Context, db queryer) error {
	var level string
	if err := db.QueryRow(ctx, readIsolation).Scan(&level); err != nil {
		return wrap("isolation level", err)
	}
	if level != readCommitted {
		return fmt.Errorf("%w: found %s", ErrIsolation, level)
	}
	return nil
}
