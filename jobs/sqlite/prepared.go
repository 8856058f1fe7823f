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
	// maxPrepared bounds the cached statements of a connection. Of the store's 150 statements, a
	// start, a finish, an adoption, a sweep and a registration use 41. A statement takes about 7
	// KB.
	maxPrepared = 96
	// maxPreparedText is the length in bytes of the longest statement that is cached.
	// It bounds the memory for statements of jobs: one with a thousand literal rows
	// is hardly ever repeated.
	maxPreparedText = 16 << 10
)

// openPool opens a pool of connections that cache their prepared statements. SQLite takes several
// times as long to parse and plan a statement as to run it.
//
// The cache belongs to the connections instead of the store, so that database/sql uses it inside
// and outside transactions, including those of jobs. A *sql.Stmt of the pool cannot be prepared
// while a transaction has the writer, which is the pool's only connection.
func openPool(dsn string) (*sql.DB, error) {
	opener, err := base.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector{opener}), nil
}

type connector struct{ driver.Connector }

// Connect opens a connection that caches its prepared statements.
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

// plainConnection lists the methods of the driver's connections that [connection] uses. It leaves
// out driver.QueryerContext and driver.ExecerContext, so that database/sql prepares each statement
// by PrepareContext and closes it after its use.
type plainConnection interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// connection caches closed statements, and returns them when the same text is prepared again. After
// a change of the schema SQLite itself prepares the statement again at its next use. database/sql
// calls a connection and its statements from one goroutine at a time.
type connection struct {
	plainConnection
	cached []*statement // not in use; the last used comes last
}

// PrepareContext returns a cached statement of this text, or prepares one. The cache has no
// statement in use, so a statement is never shared.
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

// keep caches a statement that is no longer in use. If the cache is full, it closes the least
// recently used statement.
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

// plainStatement lists the methods of the driver's statements that [statement] uses.
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

// Close returns the statement to its connection's cache. The driver has reset it and cleared its
// arguments at the end of its last use.
func (s *statement) Close() error { return s.connection.keep(s) }
