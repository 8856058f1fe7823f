package fence

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/jobs"
)

// pruneBatch is how many rows one transaction of Prune deletes.
const pruneBatch = 5000

const lastReaders = "SELECT name, max(token) FROM holdfast_fence.readers " +
	"WHERE cluster = ? GROUP BY name HAVING count(*) > 1"

// pruneCommits returns the statement that deletes a batch of old commits.
func (d Dialect) pruneCommits() string {
	return fmt.Sprintf(d.deleteBatch, "holdfast_fence.commits",
		"cluster = ? AND committed_at < "+d.ago, "cluster, committed_at", pruneBatch)
}

// pruneReaders returns the statement that deletes a batch of the readers of a name.
func (d Dialect) pruneReaders() string {
	return fmt.Sprintf(d.deleteBatch, "holdfast_fence.readers",
		"cluster = ? AND name = ? AND token < ?", "cluster, name, token", pruneBatch)
}

// Prune deletes what the run's cluster no longer needs in a database of PostgreSQL:
//   - rows of commits that are older than keep. keep must be longer than the time from the first
//     attempt of a run to its end, however long the run waits between its attempts. Without its
//     row, a later attempt or recovery of a firing would repeat the effects.
//   - the rows of readers for a name, except the one with the largest token
//
// It deletes 5,000 rows in a transaction, so an error undoes only the last of its transactions. The
// next call continues there. The scheduler prunes the databases of its configuration.
func Prune(ctx context.Context, run *jobs.Run, pool *pgxpool.Pool, keep time.Duration) error {
	return PruneCluster(ctx, run.Internal(attempt.NewKey()).Cluster, pool, keep)
}

// PruneSQL is Prune for database/sql. On Redshift, one transaction deletes all old rows of commits.
func PruneSQL(ctx context.Context, run *jobs.Run, db *sql.DB, d Dialect,
	keep time.Duration) error {
	begin := func(ctx context.Context) (*opened, error) { return beginSQL(ctx, db, d, nil) }
	return pruning{run.Internal(attempt.NewKey()).Cluster.String(), d, begin}.all(ctx, keep)
}

// PruneCluster is Prune for a cluster by its id.
func PruneCluster(ctx context.Context, cluster uuid.UUID, pool *pgxpool.Pool,
	keep time.Duration) error {
	begin := func(ctx context.Context) (*opened, error) { return beginPgx(ctx, pool, nil) }
	return pruning{cluster.String(), Postgres(), begin}.all(ctx, keep)
}

// pruning is one call of Prune.
type pruning struct {
	cluster string
	dialect Dialect
	begin   func(context.Context) (*opened, error)
}

func (p pruning) all(ctx context.Context, keep time.Duration) error {
	if err := p.readers(ctx); err != nil {
		return fmt.Errorf("prune readers of the fence: %w", err)
	}
	if err := p.delete(ctx, p.dialect.pruneCommits(), p.cluster, keep.Seconds()); err != nil {
		return fmt.Errorf("prune commits of the fence: %w", err)
	}
	return nil
}

func (p pruning) readers(ctx context.Context) error {
	last := map[string]int64{}
	if err := p.inTx(ctx, func(tx Tx) error {
		return tx.Query(ctx, func(scan func(...any) error) error {
			var name string
			var reader int64
			err := scan(&name, &reader)
			last[name] = reader
			return err
		}, p.dialect.in(lastReaders), p.cluster)
	}); err != nil {
		return err
	}
	for name, reader := range last {
		if err := p.delete(ctx, p.dialect.pruneReaders(), p.cluster, name, reader); err != nil {
			return err
		}
	}
	return nil
}

// delete executes a statement that deletes a batch until no more rows match it.
func (p pruning) delete(ctx context.Context, statement string, args ...any) error {
	total := int64(0)
	for more := true; more; {
		if err := p.inTx(ctx, func(tx Tx) error {
			deleted, err := tx.exec(ctx, statement, args...)
			total += deleted
			more = deleted >= pruneBatch
			return err
		}); err != nil {
			return fmt.Errorf("after %d rows: %w", total, err)
		}
	}
	return nil
}

func (p pruning) inTx(ctx context.Context, fn func(tx Tx) error) error {
	t, err := p.begin(ctx)
	if err != nil {
		return err
	}
	defer t.close()
	if err := fn(t.tx); err != nil {
		return err
	}
	return t.commit(ctx)
}
