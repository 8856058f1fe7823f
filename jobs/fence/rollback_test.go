package fence

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// A rollback does not wait for a database that does not answer: the handler could not return.
func TestRollbackWithoutAReplyEnds(t *testing.T) {
	muted, proxy := newPostgres(t).through(t)
	pool, failed, done := muted.pool(t), errors.New("failed"), make(chan error, 1)
	run := newRun(clusterOf(t), 5, "public/orders")
	go func() {
		done <- Do(context.Background(), run, pool, func(pgx.Tx) error {
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
