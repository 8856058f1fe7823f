package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

// locker runs a Locker on the store's grants until the test ends.
func (s *harness) locker(store *Store, replica string) *locking.Locker {
	s.t.Helper()
	return s.lockerOn(store.Grants(), replica)
}

func (s *harness) lockerOn(grants locking.Grants, replica string) *locking.Locker {
	s.t.Helper()
	l, err := locking.New(nil, locking.Options{Grants: grants,
		Session: locking.Session{Replica: replica, TTL: time.Minute}, Log: zerolog.Nop()})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	})
	if err := l.Ready(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	return l
}

func (s *harness) acquire(l *locking.Locker, keys ...string) *locking.Lock {
	s.t.Helper()
	lock, err := l.TryAcquire(s.t.Context(), locking.Owner{Job: "program"},
		lockRequest(s.t, keys...).Requests)
	if err != nil {
		s.t.Fatal(err)
	}
	return lock
}

func insert(ctx context.Context) func(pgx.Tx) error {
	return func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO public.totals VALUES (1)")
		return err
	}
}

func TestInLockCommitsOnlyWithItsClaim(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.exec("CREATE TABLE public.totals (n int)")
	lock := s.acquire(s.locker(s.a, "a"), "path:a")
	ctx := lock.Context()
	if err := s.a.InLock(ctx, lock, insert(ctx)); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	if err := s.a.InLock(ctx, lock, func(tx pgx.Tx) error {
		return errors.Join(insert(ctx)(tx), refused)
	}); !errors.Is(err, refused) {
		t.Errorf("error of the function: %v", err)
	}
	if err := s.b.Revoke(t.Context(), lock.Token(), jobs.Cancelled,
		reasons.Cancelled); err != nil {
		t.Fatal(err)
	}
	err := s.a.InLock(ctx, lock, func(pgx.Tx) error {
		t.Error("fence check of a deleted lock: got success, want an error")
		return nil
	})
	if !errors.Is(err, locking.ErrSuperseded) || !errors.Is(err, storage.ErrSuperseded) {
		t.Errorf("transaction of a lost lock: %v", err)
	}
	if n := query[int](s, "SELECT count(*) FROM public.totals"); n != 1 {
		t.Errorf("%d rows were committed", n)
	}
}

// Release waits for the transaction in any goroutine of the program. Code after the release runs
// after the commit.
func TestReleaseWaitsForTheTransactionInTheLock(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.exec("CREATE TABLE public.totals (n int)")
	grants := releaseWatch{s.a.Grants(), make(chan []locking.ReleaseResult, 1000)}
	lock, other := s.acquire(s.lockerOn(grants, "a"), "path:a"), s.locker(s.b, "b")
	resume := s.pause("a", "public.totals", "COMMIT", "true")
	done, released := make(chan error, 1), make(chan error, 1)
	go func() { done <- s.a.InLock(t.Context(), lock, insert(t.Context())) }()
	awaitWaiting(s, "a", done) // in its commit
	go func() { released <- lock.Release(t.Context()) }()
	if got := <-grants.results; !slices.Equal(got,
		[]locking.ReleaseResult{locking.ReleaseInUse}) {
		t.Errorf("release during the commit: got %v, want it in use", got)
	}
	if _, err := other.TryAcquire(t.Context(), locking.Owner{},
		lockRequest(t, "path:a").Requests); !errors.Is(err, locking.ErrHeld) {
		t.Errorf("another lock beside the transaction: %v", err)
	}
	resume()
	if err := errors.Join(<-done, <-released); err != nil {
		t.Fatal(err)
	}
	s.left(0, 0, 0, 0)
}

// releaseWatch are grants that send the results of each release.
type releaseWatch struct {
	locking.Grants
	results chan []locking.ReleaseResult
}

func (w releaseWatch) Release(ctx context.Context, tokens []locking.Token) (
	[]locking.ReleaseResult, error) {
	results, err := w.Grants.Release(ctx, tokens)
	w.results <- results
	return results, err
}

// A deadline that is further away than the longest timeout of PostgreSQL has no effect.
func TestInLockUntilADistantDeadline(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	lock := s.acquire(s.locker(s.a, "a"), "path:a")
	ctx, cancel := context.WithTimeout(lock.Context(), 100*365*24*time.Hour)
	defer cancel()
	got := 0
	if err := s.a.InLock(ctx, lock, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT 1").Scan(&got)
	}); err != nil || got != 1 {
		t.Errorf("got %d, %v", got, err)
	}
}

func TestInLockIsBoundedByItsContext(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	lock := s.acquire(s.locker(s.a, "a"), "path:a")
	ctx, cancel := context.WithTimeout(lock.Context(), time.Hour)
	defer cancel()
	var statement, idle string
	if err := s.a.InLock(ctx, lock, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT current_setting('statement_timeout'), "+
			"current_setting('idle_in_transaction_session_timeout')").Scan(&statement, &idle)
	}); err != nil {
		t.Fatal(err)
	}
	if statement == "0" || idle == "0" {
		t.Errorf("timeouts are %s and %s", statement, idle)
	}
	// The loss of a lock ends the transaction.
	entered := make(chan error, 1)
	go func() {
		entered <- s.a.InLock(lock.Context(), lock, func(tx pgx.Tx) error {
			if err := s.b.Revoke(t.Context(), lock.Token(), jobs.Lost,
				reasons.ClaimLost); !errors.Is(err, storage.ErrUnavailable) {
				return fmt.Errorf("revocation of a claim in use: %w", err)
			}
			go func() { _ = lock.Release(t.Context()) }() // its context ends at once
			_, err := tx.Exec(lock.Context(), "SELECT pg_sleep(600)")
			return err
		})
	}()
	if err := <-entered; err == nil || lock.Context().Err() == nil {
		t.Errorf("transaction of a lock that was given up: %v", err)
	}
}

func TestLockWithoutGrantsHasNoTransactions(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	l, err := locking.New(memory.New(),
		locking.Options{Namespace: "n", Lease: time.Minute, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := l.TryAcquire(t.Context(), locking.Owner{}, lockRequest(t, "path:a").Requests)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.a.InLock(t.Context(), lock, func(pgx.Tx) error {
		t.Error("function of InLock: got a call, want none")
		return nil
	}); err == nil {
		t.Error("commit of a lock without a token: got success, want an error")
	}
}

// A program with its own connections performs the fence check itself.
func TestFenceInATransactionOfTheProgram(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.locks(s.a, "a")
	token := s.hold(s.a, session, lockRequest(t, "path:a"))
	check := func() error {
		tx, err := s.watcher().Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(context.Background()) //nolint:errcheck // nothing was written
		return s.a.Fence(t.Context(), tx, token)
	}
	if err := check(); err != nil {
		t.Error(err)
	}
	s.release(s.a, token)
	if err := check(); !errors.Is(err, locking.ErrSuperseded) {
		t.Errorf("fence of a released lock: %v", err)
	}
}
