package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/internal/plural"
)

const (
	// minBorrowed are the connections of a borrowed pool that the store needs: two for its own
	// statements, because one of them may wait for a row, and one for a job.
	minBorrowed = 3

	readSettings = `SELECT current_setting('transaction_isolation'),
		current_setting('transaction_read_only') = 'on',
		current_setting('session_replication_role'), current_setting('synchronous_commit')`
)

// borrow uses the pool of the program for the store's own statements and for the transactions of
// jobs, each with a part of its connections. At least half of them are left to the program. All
// other connections are the store's own, so that neither the program nor jobs delay a heartbeat.
func (s *Store) borrow(ctx context.Context, o Options) error {
	config := o.Pool.Config()
	own, work, err := sharesOf(config, o)
	if err != nil {
		return err
	}
	part := func(slots int) *dbPool {
		return &dbPool{Pool: o.Pool, schema: s.schema, slots: make(chan struct{}, slots),
			borrowed: true}
	}
	s.pool, s.work = part(own), part(work)
	configureSession(config.ConnConfig)
	config.MinConns, config.MinIdleConns = 0, 0
	// These would see statements that are not the program's.
	config.PrepareConn, config.AfterRelease = nil, nil
	s.connector = connector{config}
	s.heartbeats = newHeartbeatConns(s.connector, s.schema)
	if s.views, err = s.newPool(ctx, viewsOf(config)); err != nil {
		return err
	}
	return s.checkSettings(ctx)
}

// CheckPool returns an error if a pool with this configuration cannot be Options.Pool: it has too
// few connections, or a mode in which pgx does not know the types of arguments.
func CheckPool(config *pgxpool.Config) error {
	if err := checkMode(config.ConnConfig); err != nil {
		return err
	}
	if config.MaxConns < 2*minBorrowed {
		return fmt.Errorf("the pool has at most %s, expected at least %d: the "+
			"store takes at most half of them, and needs %d (pool_max_conns)",
			plural.Of(int(config.MaxConns), "connection", "connections"),
			2*minBorrowed, minBorrowed)
	}
	return nil
}

// checkMode returns an error for the modes of pgx in which it does not ask the server for the types
// of arguments: it could not encode the lists of the store's statements.
func checkMode(config *pgx.ConnConfig) error {
	switch mode := config.DefaultQueryExecMode; mode {
	case pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol:
		return fmt.Errorf("default_query_exec_mode is %q, expected cache_statement, "+
			"cache_describe or describe_exec", mode)
	}
	return nil
}

// sharesOf returns how many connections of a pool the store's own statements and the transactions
// of jobs may use.
func sharesOf(config *pgxpool.Config, o Options) (own, work int, err error) {
	if o.URL != "" || o.JobsURL != "" {
		return 0, 0, errors.New("found a pool and a URL of the database, expected one of them")
	}
	if err := CheckPool(config); err != nil {
		return 0, 0, err
	}
	half := int(config.MaxConns) / 2
	own = min(max(2, half/3), max(2, o.MaxConnections))
	return own, min(half-own, max(1, o.WorkConnections)), nil
}

// checkSettings returns an error unless a connection of the pool has the settings that the protocol
// needs.
func (s *Store) checkSettings(ctx context.Context) error {
	var isolation, triggers, commit string
	var readOnly bool
	if err := s.pool.QueryRow(ctx, readSettings).
		Scan(&isolation, &readOnly, &triggers, &commit); err != nil {
		return wrap("settings of the pool", err)
	}
	switch {
	case isolation != readCommitted:
		return fmt.Errorf("%w: found %s in the pool", ErrIsolation, isolation)
	case readOnly:
		return fmt.Errorf("the transactions of the pool are read-only, expected a pool that writes")
	case triggers == "replica":
		return fmt.Errorf("session_replication_role of the pool is replica, expected origin: the " +
			"store has triggers")
	case commit == "off":
		return fmt.Errorf("synchronous_commit of the pool is off, expected on: after a crash, " +
			"PostgreSQL would forget starts, and firings would run twice")
	}
	return nil
}
