package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	connectTimeout = 5 * time.Second

	// A connection whose other end is gone without a word is closed after some
	// 25 s by whoever still lives, so that neither waits for ever.
	keepAliveIdle     = 10 * time.Second
	keepAliveInterval = 5 * time.Second
	keepAliveCount    = 3
	tcpUserTimeout    = 20 * time.Second

	// setKeepAlive has PostgreSQL look after its end of the connection. It is a
	// statement and not a parameter of the connection, which a pooler refuses
	// when it does not know it.
	setKeepAlive = `SELECT set_config('tcp_keepalives_idle', '10', false),
		set_config('tcp_keepalives_interval', '5', false),
    set_config('tcp_keepalives_count', '3', false), set_config('tcp_user_timeout', '20000', false)`

	// readCommitted is what the protocol rests on.
	readCommitted = "read committed"
	readIsolation = `SELECT current_setting('transaction_isolation')`
)

// ErrIsolation says that transactions have another isolation level than read
// committed. The store asks for it when it connects; a pooler may not pass that
// on, and then the default of the role or the database holds.
var ErrIsolation = errors.New("transactions are not read committed: set " +
	"default_transaction_isolation of the role or of the database, " +
	"where a pooler ignores it as a startup parameter")

// configure sets what every connection of the store has.
func configure(config *pgx.ConnConfig) {
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	setDefault(config.RuntimeParams, "application_name", "holdfast")
	// The protocol rests on each statement seeing what was committed before
	// it, whatever the database's own default is.
	config.RuntimeParams["default_transaction_isolation"] = readCommitted
	dialer := &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle,
			Interval: keepAliveInterval, Count: keepAliveCount},
		Control: boundUnacknowledged,
	}
	config.DialFunc = dialer.DialContext
	config.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if err := conn.Exec(ctx, setKeepAlive).Close(); err != nil {
			return fmt.Errorf("settings of a connection: %w", err)
		}
		return nil
	}
}

// requireReadCommitted returns ErrIsolation unless transactions are read
// committed where they don't ask for anything.
func requireReadCommitted(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) error {
	var level string
	if err := db.QueryRow(ctx, readIsolation).Scan(&level); err != nil {
		return wrap("isolation level", err)
	}
	if level != readCommitted {
		return fmt.Errorf("%w: found %s", ErrIsolation, level)
	}
	return nil
}
