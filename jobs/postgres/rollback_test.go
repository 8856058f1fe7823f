package postgres

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

// A handler must be able to return although its database does not answer.
func TestRollbackWithoutAReplyEnds(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	proxied, proxy := openProxied(t, s.url)
	run := s.granted(proxied, s.session(s.a, "a"), request(t, "job", "totals"))
	servertest.CheckRollback(t, proxy, func(fn func() error) error {
		return proxied.inTx(context.Background(), run, func(pgx.Tx) error { return fn() })
	})
}
