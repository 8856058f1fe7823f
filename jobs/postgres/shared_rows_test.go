package postgres

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// A migration waits for the open transactions of jobs that hold rows of its table. Starts queue
// behind it, so it gives up soon and retries.
func TestStartsDoNotQueueBehindAWaitingMigration(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	run := s.granted(s.a, session, request(t, "long", "orders"))
	entered, leave, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- InTx(t.Context(), run, func(pgx.Tx) error {
			close(entered)
			<-leave
			return nil
		})
	}()
	<-entered
	migrated := make(chan error, 1)
	go func() {
		migrated <- sendMigration(t.Context(), s.b.pool,
			"ALTER TABLE holdfast.claims ADD COLUMN another int")
	}()
	awaitWaiting(s, "b", migrated)
	// within the store's lock timeout, while the job's transaction is open
	s.granted(s.a, session, request(t, "other", "sales"))
	close(leave)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := <-migrated; err != nil {
		t.Errorf("migration once the job has ended: %v", err)
	}
}

// Transactions of jobs that share a resource must not lock a common row: each sharer of a row
// writes a list of all the others, a million entries in seconds.
func TestJobsThatShareAResourceShareNoRow(t *testing.T) {
	t.Parallel()
	const sharers = 30
	s := newHarness(t)
	for try := 1; ; try++ {
		// Other tests use the server too, and may write some meanwhile.
		members := s.membersOfSharers(sharers)
		if members == 0 {
			return
		}
		if try == 20 {
			t.Fatalf("%d members of shared row locks were written for %d jobs", members, sharers)
		}
	}
}

// membersOfSharers returns how many members of shared row locks the server writes while so many
// jobs that share a resource begin their transactions.
func (s *harness) membersOfSharers(sharers int) int64 {
	s.t.Helper()
	t := s.t
	session := s.session(s.a, "a")
	runs := make([]*jobs.Run, sharers)
	for i := range runs {
		r := request(t, "job", "orders")
		r.Firing.Key, r.Requests[0].Mode = r.Run.String(), locking.Shared
		runs[i] = s.granted(s.a, session, r)
	}
	before := s.multixactMembers()
	for _, run := range runs {
		conn, err := pgx.Connect(t.Context(), s.url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background()) //nolint:errcheck // nothing was written
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(context.Background()) //nolint:errcheck // nothing was written
		if err := s.a.Fence(t.Context(), tx, run.Token); err != nil {
			t.Fatal(err)
		}
	}
	return s.multixactMembers() - before
}

// multixactMembers returns how many members of shared row locks the server has written so far.
func (s *harness) multixactMembers() int64 {
	s.t.Helper()
	s.exec("CHECKPOINT")
	return query[int64](s, "SELECT next_multi_offset::text::bigint FROM pg_control_checkpoint()")
}

// A sweep neither waits for an old fence that is locked nor deletes it.
func TestSweepSkipsALockedFence(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.fences("path:held", "path:idle")
	s.exec("UPDATE holdfast.fences SET added_at = now() - interval '61 minutes'")
	tx := s.inTransaction(t, "SELECT FROM holdfast.fences WHERE resource = 'path:held' FOR SHARE")
	s.b.lockTimeout = "100ms"
	if _, err := s.b.Sweep(t.Context()); err != nil {
		t.Errorf("sweep beside an old fence that is locked: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := query[[]string](s,
		"SELECT array_agg(resource) FROM holdfast.fences"); len(left) != 1 ||
		left[0] != "path:held" {
		t.Errorf("fences %v are left", left)
	}
}
