package postgres

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// dbPool sends statements of this package on connections of a pgxpool.Pool. It may be used
// concurrently.
type dbPool struct {
	*pgxpool.Pool
	schema schemaName
	// slots bounds how many connections of a shared pool are in use; nil: all may be.
	slots chan struct{}
	// borrowed reports that the pool belongs to the program.
	borrowed bool
}

// take waits for a slot. The returned function frees it, and may be called more than once.
func (p *dbPool) take(ctx context.Context) (free func(), err error) {
	if p.slots == nil {
		return func() {}, nil
	}
	select {
	case p.slots <- struct{}{}:
		return sync.OnceFunc(func() { <-p.slots }), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// lease returns a connection for statements of the caller's own. The returned function releases it.
func (p *dbPool) lease(ctx context.Context) (*pgxpool.Conn, func(), error) {
	free, err := p.take(ctx)
	if err != nil {
		return nil, nil, err
	}
	conn, err := p.Acquire(ctx)
	if err != nil {
		free()
		return nil, nil, err
	}
	return conn, func() { conn.Release(); free() }, nil
}

func (p *dbPool) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	free, err := p.take(ctx)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	defer free()
	return p.Pool.Exec(ctx, p.schema.in(sql), args...)
}

func (p *dbPool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	free, err := p.take(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := p.Pool.Query(ctx, p.schema.in(sql), args...)
	if err != nil {
		free()
		return nil, err
	}
	return leasedRows{rows, free}, nil
}

// leasedRows frees a slot when all rows are read, or when they are closed.
type leasedRows struct {
	pgx.Rows
	free func()
}

func (r leasedRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.free()
	return false
}

func (r leasedRows) Close() {
	r.Rows.Close()
	r.free()
}

func (p *dbPool) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	free, err := p.take(ctx)
	if err != nil {
		return failedRow{err}
	}
	return leasedRow{p.Pool.QueryRow(ctx, p.schema.in(sql), args...), free}
}

type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

type leasedRow struct {
	row  pgx.Row
	free func()
}

func (r leasedRow) Scan(dest ...any) error {
	defer r.free()
	return r.row.Scan(dest...)
}

// send sends a batch and reads its results.
func (p *dbPool) send(ctx context.Context, b *pgx.Batch) error {
	free, err := p.take(ctx)
	if err != nil {
		return err
	}
	defer free()
	return p.Pool.SendBatch(ctx, p.schema.batch(b)).Close()
}

// Begin begins a transaction for pgx.BeginFunc, which always ends it.
func (p *dbPool) Begin(ctx context.Context) (pgx.Tx, error) {
	free, err := p.take(ctx)
	if err != nil {
		return nil, err
	}
	tx, err := p.Pool.Begin(ctx)
	if err != nil {
		free()
		return nil, err
	}
	return leasedTx{schemaTx{tx, p.schema}, free}, nil
}

// leasedTx frees a slot at its end.
type leasedTx struct {
	schemaTx
	free func()
}

func (tx leasedTx) Commit(ctx context.Context) error {
	defer tx.free()
	return tx.schemaTx.Commit(ctx)
}

func (tx leasedTx) Rollback(ctx context.Context) error {
	defer tx.free()
	return tx.schemaTx.Rollback(ctx)
}

// close closes the pool unless it belongs to the program.
func (p *dbPool) close() {
	if p != nil && !p.borrowed {
		p.Pool.Close()
	}
}

// connector opens single connections with the settings of a pool.
type connector struct{ config *pgxpool.Config }

func (c connector) connect(ctx context.Context) (*pgx.Conn, error) {
	config := c.config.ConnConfig.Copy()
	if before := c.config.BeforeConnect; before != nil {
		if err := before(ctx, config); err != nil {
			return nil, err
		}
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if after := c.config.AfterConnect; after != nil {
		if err := after(ctx, conn); err != nil {
			hangUp(conn)
			return nil, err
		}
	}
	return conn, nil
}
