package fence

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

// A handler must be able to return although its database does not answer.
func TestRollbackWithoutAReplyEnds(t *testing.T) {
	muted, proxy := newPostgres(t).through(t)
	pool, run := muted.pool(t), newRun(clusterOf(t), 5, "public/orders")
	servertest.CheckRollback(t, proxy, func(fn func() error) error {
		return Do(context.Background(), run, pool, func(pgx.Tx) error { return fn() })
	})
}
