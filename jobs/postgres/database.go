package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/fence"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// DatabaseOptions are the settings of a Database.
type DatabaseOptions struct {
	URL            string // a libpq URL or keyword string
	MaxConnections int
	// Unfenced says that the database has no fence: superseded runs can write there.
	Unfenced bool
	Progress storage.JobProgress // the store
	Log      zerolog.Logger
}

// Database is a database other than the store, in which jobs have their tables. Package fence
// orders its transactions. It implements storage.RunStore, and may be used concurrently.
type Database struct {
	storage.JobProgress
	pool     *pgxpool.Pool
	unfenced bool
}

var _ storage.RunStore = (*Database)(nil)

// OpenDatabase returns a database. It connects later, so it returns no error if the database is
// down.
func OpenDatabase(ctx context.Context, o DatabaseOptions) (*Database, error) {
	config, err := parsePool(o.URL, o.MaxConnections)
	if err != nil {
		return nil, err
	}
	config.AfterRelease = resetSessions(o.Log)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open database pool: %w", err)
	}
	return &Database{JobProgress: o.Progress, pool: pool, unfenced: o.Unfenced}, nil
}

// InTx runs fn in a fenced transaction: see [fence.Transact].
func (d *Database) InTx(ctx context.Context, run *jobs.Run, fn func(tx jobs.Tx) error) error {
	transact := fence.Transact
	if d.unfenced {
		transact = d.unfencedTx
	}
	return transact(ctx, run, d.pool, whole(ctx, onEither(fn)))
}

// CompleteInTx runs fn in a fenced transaction whose effects commit at most once for each firing:
// see [fence.Do]. The store records the end of the run later.
func (d *Database) CompleteInTx(ctx context.Context, run *jobs.Run,
	fn func(tx jobs.Tx) error) error {
	return d.complete(ctx, run, onEither(fn))
}

func (d *Database) complete(ctx context.Context, run *jobs.Run, fn func(tx pgx.Tx) error) error {
	if d.unfenced {
		return d.unfencedTx(ctx, run, d.pool, whole(ctx, fn))
	}
	called := false
	err := fence.Do(ctx, run, d.pool, func(tx pgx.Tx) error {
		called = true
		return whole(ctx, fn)(tx)
	})
	if err == nil && !called {
		fmt.Fprintln(run.Output(), "an earlier attempt has committed the transaction")
	}
	return err
}

// RunStatements implements storage.RunStore. If an earlier attempt has committed the statements, it
// executes nothing, and the run has no result.
func (d *Database) RunStatements(ctx context.Context, run *jobs.Run,
	script storage.Script) ([]int64, error) {
	return runStatements(ctx, run, script.Statements, d.complete)
}

func (d *Database) unfencedTx(ctx context.Context, _ *jobs.Run, pool *pgxpool.Pool,
	fn func(tx pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, fn)
}

// whole returns fn with a check that fn has not ended the transaction: see ErrTransactionControl.
func whole(ctx context.Context, fn func(tx pgx.Tx) error) func(tx pgx.Tx) error {
	return func(tx pgx.Tx) error {
		fenced := fencedTx{Tx: tx}
		if err := tx.QueryRow(ctx, readTransaction).Scan(&fenced.id); err != nil {
			return err
		}
		if err := fn(tx); err != nil {
			return err
		}
		if err := requireOpen(tx); err != nil {
			return err
		}
		b := &pgx.Batch{}
		fenced.queueCheck(b)
		return tx.SendBatch(ctx, b).Close()
	}
}

// readTransaction assigns the transaction its id.
const readTransaction = `SELECT pg_current_xact_id()::text`

// Check returns an error if the database does not answer, or if it has no fence and should have
// one.
func (d *Database) Check(ctx context.Context) error {
	return wrap("check database", pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		if d.unfenced {
			_, err := tx.Exec(ctx, "SELECT 1")
			return err
		}
		return fence.Probe(ctx, fence.Pgx(tx))
	}))
}

// InstallFence creates the tables of the fence.
func (d *Database) InstallFence(ctx context.Context) error {
	return wrap("install fence", pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		return fence.Install(ctx, fence.Pgx(tx))
	}))
}

// PruneFence calls [fence.PruneCluster].
func (d *Database) PruneFence(ctx context.Context, cluster uuid.UUID, keep time.Duration) error {
	if d.unfenced {
		return nil
	}
	return fence.PruneCluster(ctx, cluster, d.pool, keep)
}

// errBusy ends the wait of Close.
var errBusy = errors.New("connections are still in use by abandoned handlers")

// Close closes the connections. It waits at most 5 s for those in use.
func (d *Database) Close() error {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		d.pool.Close()
	}()
	select {
	case <-closed:
		return nil
	case <-time.After(closeTimeout):
		return errBusy
	}
}
