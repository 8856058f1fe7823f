package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// A rollback does not wait for a database that does not answer: the handler could not return.
func TestRollbackWithoutAReplyEnds(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	proxied, proxy := openProxied(t, s.url)
	run := s.granted(proxied, s.session(s.a, "a"), request(t, "job", "totals"))
	failed, done := errors.New("failed"), make(chan error, 1)
	go func() {
		done <- proxied.inTx(context.Background(), run, func(pgx.Tx) error {
			proxy.MuteAll()
			return failed
		})
	}()
	select {
	case err := <-done:
		if !errors.Is(err, failed) {
			t.Errorf("got %v, want %v", err, failed)
		}
	case <-time.After(30 * time.Second):
		proxy.CutAll()
		t.Fatalf("it still waits for the rollback; then it returned %v", <-done)
	}
}
