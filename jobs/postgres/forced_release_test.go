package postgres

import (
	"context"
	"errors"
	"reflect"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// operator is the actor of the tests.
var operator = storage.Action{Actor: "ann", Via: "go"}

// A run inside a transaction may still commit, so Release either refuses or ends the transaction
// first.
func TestReleaseOfARunInsideATransaction(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.exec("CREATE TABLE public.totals (n int)")
	asked := request(t, "job", "totals")
	run := s.granted(s.a, s.session(s.a, "a"), asked)
	inside, end, ended := make(chan bool), make(chan bool), make(chan error, 1)
	go func() {
		ended <- InTx(context.Background(), run, func(tx pgx.Tx) error {
			err := insert(context.Background())(tx)
			close(inside)
			<-end
			return err
		})
	}()
	<-inside
	release := storage.ReleaseRequest{Resource: asked.Requests[0].Resource, Token: run.Token}
	if _, err := s.b.Release(t.Context(), operator, release); !errors.Is(err,
		storage.ErrInTransaction) {
		t.Fatalf("release of a run inside a transaction: %v", err)
	}
	if n := query[int](s, "SELECT count(*) FROM holdfast.audit"); n != 0 ||
		s.state(run.ID) != "running" {
		t.Fatalf("%d lines in the audit log, run is %s", n, s.state(run.ID))
	}
	release.EndTransaction = true
	released, err := s.b.Release(t.Context(), operator, release)
	if err != nil || released.ID != run.ID ||
		!reflect.DeepEqual(released.Requests, asked.Requests) {
		t.Fatalf("released %+v, %v", released, err)
	}
	close(end)
	if err := <-ended; err == nil {
		t.Error("commit after the release: got success, want an error")
	}
	if n := query[int](s, "SELECT count(*) FROM public.totals"); n != 0 ||
		s.state(run.ID) != "lost" {
		t.Errorf("%d rows were committed, run is %s", n, s.state(run.ID))
	}
	if n := query[int](s,
		"SELECT (detail ->> 'ended_transactions')::int FROM holdfast.audit"); n != 1 {
		t.Errorf("%d transactions were ended", n)
	}
}

// TestReleaseContinuesAfterAFinish stops the backend of a release. The run whose transaction the
// release ended finishes first and waits for its next attempt.
func TestReleaseContinuesAfterAFinish(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	asked := request(t, "job", "totals")
	session := s.session(s.a, "a")
	for !s.finishBeforeRelease(session, asked) {
		// The release ended the transaction before it was stopped. The next try is another firing.
		last := asked.Firing.ScheduledAt
		asked = request(t, "job", "totals")
		asked.Firing.ScheduledAt = last.Add(time.Minute)
	}
	if state := s.state(asked.Run); state != "lost" {
		t.Errorf("run is %s", state)
	}
	if n := query[int](s, "SELECT count(*) FROM holdfast.waits"); n != 0 {
		t.Errorf("%d waits are left", n)
	}
	if n := query[int](s, "SELECT (detail ->> 'ended_transactions')::int FROM holdfast.audit "+
		"ORDER BY at DESC LIMIT 1"); n != 1 {
		t.Errorf("%d transactions were ended", n)
	}
}

// finishBeforeRelease reports whether the finish of the attempt came between the end of its
// transaction and the release that ended it.
func (s *harness) finishBeforeRelease(session uuid.UUID, asked storage.StartRequest) bool {
	run := s.granted(s.a, session, asked)
	inside, ended := make(chan int, 1), make(chan error, 1)
	go func() {
		ended <- InTx(context.Background(), run, func(tx pgx.Tx) error {
			var pid int
			err := tx.QueryRow(context.Background(), backendID).Scan(&pid)
			inside <- pid
			if err == nil {
				_, err = tx.Exec(context.Background(), "SELECT pg_sleep(600)")
			}
			return err
		})
	}()
	backend := <-inside
	type answer struct {
		lock locking.Released
		err  error
	}
	release := make(chan answer, 1)
	go func() {
		lock, err := s.b.Release(s.t.Context(), operator,
			storage.ReleaseRequest{Resource: asked.Requests[0].Resource, Token: run.Token,
				EndTransaction: true})
		release <- answer{lock, err}
	}()
	pid, early := waitingBackend(s, "b", release)
	if early != nil {
		<-ended
		return false
	}
	s.signal(pid, syscall.SIGSTOP)
	frozen := query[bool](s, "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $1",
		pid)
	if err := <-ended; err == nil {
		s.t.Fatal("commit after the release: got success, want an error")
	}
	// A terminated backend tells its client before it gives back its locks. Until then a finish
	// would wait behind the frozen release.
	for query[bool](s, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)", backend) {
	}
	finish := storage.FinishRequest{Run: run.ID, Token: run.Token, State: jobs.Waiting,
		Reason: reasons.Retry, Error: "terminated"}
	done, err := s.a.Finish(s.t.Context(), []storage.FinishRequest{finish})
	s.signal(pid, syscall.SIGCONT)
	got := <-release
	if !frozen {
		return false
	}
	if err != nil || !done[0] {
		s.t.Fatalf("finish: %v, %v", done, err)
	}
	if got.err != nil || got.lock.ID != run.ID || got.lock.Token != run.Token ||
		!reflect.DeepEqual(got.lock.Requests, asked.Requests) {
		s.t.Errorf("released %+v, %v", got.lock, got.err)
	}
	return true
}

// signal sends a signal to a backend.
func (s *harness) signal(pid int, signal syscall.Signal) {
	s.t.Helper()
	if err := syscall.Kill(pid, signal); err != nil {
		s.t.Fatal(err)
	}
}

// A release must not end a finish that locks the claim briefly. The result of the finish remains.
func TestReleaseWaitsForAFinish(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	asked := request(t, "job", "totals")
	run := s.granted(s.a, s.session(s.a, "a"), asked)
	resume := s.pause("a", "holdfast.claims", "DELETE", "true")
	finished := make(chan error, 1)
	go func() {
		_, err := s.a.Finish(t.Context(),
			[]storage.FinishRequest{{Run: run.ID, Token: run.Token, State: jobs.Succeeded}})
		finished <- err
	}()
	awaitWaiting(s, "a", finished)
	release := make(chan error, 1)
	go func() {
		_, err := s.b.Release(t.Context(), operator,
			storage.ReleaseRequest{Resource: asked.Requests[0].Resource, Token: run.Token,
				EndTransaction: true})
		release <- err
	}()
	awaitWaiting(s, "b", release)
	resume()
	if err := <-finished; err != nil {
		t.Errorf("finish: %v", err)
	}
	if err := <-release; !errors.Is(err, storage.ErrConflict) {
		t.Errorf("release of what was given back: %v", err)
	}
	if state := s.state(run.ID); state != "succeeded" {
		t.Errorf("run is %s", state)
	}
}

func TestReleaseOfALockOfAProgram(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.exec("CREATE TABLE public.totals (n int)")
	lock := s.acquire(s.locker(s.a, "a"), "path:a/b", "table:public/totals")
	resource, err := locking.Path("a/b")
	if err != nil {
		t.Fatal(err)
	}
	released, err := s.b.Release(t.Context(), operator,
		storage.ReleaseRequest{Resource: resource, Token: lock.Token()})
	if err != nil || released.Token != lock.Token() || released.Owner.Job != "program" ||
		len(released.Requests) != 2 {
		t.Fatalf("released %+v, %v", released, err)
	}
	if err := s.a.InLock(t.Context(), lock, insert(t.Context())); !errors.Is(err,
		locking.ErrSuperseded) {
		t.Errorf("transaction in a lock that was taken away: %v", err)
	}
	s.acquire(s.locker(s.b, "b"), "path:a")
}
