package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// OldestVersion is the oldest supported release of PostgreSQL, as in server_version_num.
const OldestVersion = 130000

// Inspection is what a replica finds at the server.
type Inspection struct {
	Version       string // such as "15.4"
	VersionNumber int    // as in server_version_num
	ReadOnly      bool   // a standby, or transactions are read-only by default
	Pooled        bool   // a pooler such as pgbouncer is in between
	Role          string
	Superuser     bool
	// ChangesAudit says that the role, or a role that it can set, may change the audit log or its
	// hash chain.
	ChangesAudit bool
	// ReadCommitted is nil, or the error of Open about the isolation level.
	ReadCommitted error
	// These are statement_timeout and idle_in_transaction_session_timeout; 0: none.
	StatementTimeout, IdleTimeout time.Duration
	// Offset is how far the clock of the server is ahead of this machine's.
	Offset time.Duration
	// Schema is nil, or the error of Open about the schema, without advice.
	Schema  error
	Cluster uuid.UUID // zero if Schema is an error
}

// inspect does not name the table with to_regclass, which needs a permission on its schema.
const (
	inspect = `
SELECT current_setting('server_version'), current_setting('server_version_num')::int,
    pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on', pg_backend_pid(),
    r.rolname, r.rolsuper,
    EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, pg_roles m
        WHERE n.nspname = $1
            AND c.relname IN ('audit', 'audit_unsealed', 'audit_links', 'audit_chain')
            AND pg_has_role(r.oid, m.oid, 'MEMBER')
            AND (m.oid = c.relowner
                OR has_table_privilege(m.oid, c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
                OR has_any_column_privilege(m.oid, c.oid, 'INSERT, UPDATE'))),
    (SELECT setting::bigint FROM pg_settings WHERE name = 'statement_timeout'),
    (SELECT setting::bigint FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout')
FROM pg_roles r WHERE r.rolname = current_user`
	readClock = `SELECT clock_timestamp()`
)

// Inspect opens one connection with the settings of a replica, and closes it. It changes nothing.
// The argument schema is as in Options.
func Inspect(ctx context.Context, url, schema string) (i Inspection, err error) {
	name, err := newSchemaName(schema)
	if err != nil {
		return i, err
	}
	pool, err := pgxpool.ParseConfig(url)
	if err != nil {
		return i, fmt.Errorf("parse database url: %w", err)
	}
	config := pool.ConnConfig
	configure(config)
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // a pooler may lose statements
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return i, wrap("connect", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	var backend uint32
	var statements, idle int64
	if err := conn.QueryRow(ctx, inspect, string(name)).Scan(&i.Version, &i.VersionNumber,
		&i.ReadOnly, &backend, &i.Role, &i.Superuser, &i.ChangesAudit, &statements,
		&idle); err != nil {
		return i, wrap("inspect", err)
	}
	i.Pooled = backend != conn.PgConn().PID() // poolers invent the number that they send
	i.StatementTimeout = time.Duration(statements) * time.Millisecond
	i.IdleTimeout = time.Duration(idle) * time.Millisecond
	before := time.Now()
	var clock time.Time
	if err := conn.QueryRow(ctx, readClock).Scan(&clock); err != nil {
		return i, wrap("read clock", err)
	}
	i.Offset = clock.Sub(before.Add(time.Since(before) / 2))
	i.ReadCommitted = requireReadCommitted(ctx, conn)
	found, err := readSchema(ctx, schemaQueryer{conn, name})
	i.Cluster, i.Schema = found.cluster, err
	return i, nil
}
