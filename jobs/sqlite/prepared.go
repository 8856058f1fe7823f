package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"

	base "modernc.org/sqlite"
)

const (
	// maxPrepared is how many prepared statements a connection keeps. Of the 150 of
	// the store, a start, a finish, an adoption, a sweep and a registration use 41.
	// A statement takes about 7 KB.
	maxPrepared = 96
	// maxPreparedText is the length in bytes of the longest statement that is cached.
	// It bounds the memory for statements of jobs: one with a thousand literal rows
	// is hardly ever repeated.
	maxPreparedText = 16 << 10
)

// openPool opens a pool of connections that keep their prepared statements. SQLite
// takes several times as long to parse and plan a statement as to run it.
//
// The connections keep them, not the store: database/sql then uses them inside and
// outside transactions, and in those of jobs. A *sql.Stmt of the pool cannot be
// prepared while a transaction has the writer, which is the pool's one connection.
func openPool(dsn string) (*sql.DB, error) {
	opener, err := base.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector{opener}), nil
}

type connector struct{ driver.Connector }

// Connect opens a connection that keeps its prepared statements.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	opened, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	plain, ok := opened.(plainConnection)
	if !ok {
		return nil, errors.Join(fmt.Errorf("connection of an unknown kind: %T", opened),
			opened.Close())
	}
	return &connection{plainConnection: plain}, nil
}

// plainConnection is what the driver's connections do for [connection]. It leaves
// out driver.QueryerContext and driver.ExecerContext, so that database/sql
// prepares each statement, by PrepareContext, and closes it after its use.
type plainConnection interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// connection keeps the statements that were closed, and returns them when the
// same text is prepared again. When the schema has changed since, SQLite itself
// prepares the statement anew at its next use. database/sql calls a connection and
// its statements from one goroutine at a time.
type connection struct {
	plainConnection
	cached []*statement // not in use; the last used comes last
}

// PrepareContext returns a cached statement of this text, or prepares one. A
// statement in use is not among those cached, so it is never shared.
func (c *connection) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	for i, s := range slices.Backward(c.cached) {
		if s.text == text {
			c.cached = slices.Delete(c.cached, i, i+1)
			return s, nil
		}
	}
	prepared, err := c.plainConnection.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	plain, ok := prepared.(plainStatement)
	if !ok {
		return nil, errors.Join(fmt.Errorf("statement of an unknown kind: %T", prepared),
			prepared.Close())
	}
	return &statement{plainStatement: plain, text: text, connection: c}, nil
}

// keep keeps a statement that is no longer in use. If that makes too many, it
// closes the least recently used one.
func (c *connection) keep(s *statement) error {
	if len(s.text) > maxPreparedText {
		return s.plainStatement.Close()
	}
	var err error
	if len(c.cached) >= maxPrepared {
		err = c.cached[0].plainStatement.Close()
		c.cached = slices.Delete(c.cached, 0, 1)
	}
	c.cached = append(c.cached, s)
	return err
}

// Close closes the statements and the connection.
func (c *connection) Close() error {
	var errs []error
	for _, s := range c.cached {
		errs = append(errs, s.plainStatement.Close())
	}
	c.cached = nil
	return errors.Join(append(errs, c.plainConnection.Close())...)
}

// plainStatement is what the driver's statements do for [statement].
type plainStatement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type statement struct {
	plainStatement
	text       string
	connection *connection
}

// Close gives the statement back to its connection. The driver has reset it, and
// cleared its arguments, at the end of its last use.
func (s *statement) Close() error { return s.connection.keep(s) }
