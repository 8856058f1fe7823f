package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// byHand is the actor of the tests.
var byHand = storage.Action{Actor: "ann", Via: "cli"}

func TestReleaseOfARunInsideATransaction(t *testing.T) {
	r := startRun(t)
	locks, err := r.Locks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	inside, end, ended := make(chan bool), make(chan bool), make(chan error, 1)
	go func() {
		ended <- sqlite.InTx(context.Background(), r.run, func(tx *sql.Tx) error {
			if err := insertSale(tx); err != nil {
				return err
			}
			close(inside)
			for { // until the transaction has been ended
				if _, err := tx.Exec("SELECT 1"); err != nil {
					return err
				}
				select {
				case <-end:
					return nil
				default:
				}
			}
		})
	}()
	<-inside
	release := storage.ReleaseRequest{Resource: locks[0].Resource, Token: r.run.Token}
	if _, err := r.Release(t.Context(), byHand, release); !errors.Is(err,
		storage.ErrInTransaction) {
		t.Errorf("release of a run inside a transaction: %v", err)
	}
	release.EndTransaction = true
	if _, err := r.Release(t.Context(), byHand, release); err != nil {
		t.Errorf("release that ends the transaction: %v", err)
	}
	close(end)
	if err := <-ended; err == nil {
		t.Error("commit after the release: got success, want an error")
	}
	record := r.expect(t, jobs.Lost, 0)
	if record.Reason != reasons.Released {
		t.Errorf("released run %+v", record)
	}
	if err := sqlite.InTx(t.Context(), r.run, insertSale); !errors.Is(err, storage.ErrSuperseded) {
		t.Errorf("transaction of a released run: %v", err)
	}
}

// The handler returns as soon as its transaction was ended. Its end must not be recorded before the
// release: a run that waits for its next attempt would continue.
func TestReleaseComesBeforeTheEndOfTheRun(t *testing.T) {
	r := startRun(t)
	locks, err := r.Locks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	inside, ended := make(chan bool), make(chan error, 1)
	var done []bool
	go func() {
		err := sqlite.InTx(context.Background(), r.run, func(tx *sql.Tx) (err error) {
			for close(inside); err == nil; { // until the transaction has been ended
				_, err = tx.Exec("SELECT 1")
			}
			return err
		})
		if err == nil {
			t.Error("commit after the release: got success, want an error")
		}
		retry := storage.FinishRequest{Run: r.run.ID, Token: r.run.Token, State: jobs.Waiting,
			Reason: reasons.Retry}
		done, err = r.Finish(context.Background(), []storage.FinishRequest{retry})
		ended <- err
	}()
	<-inside
	if _, err := r.Release(t.Context(), byHand, storage.ReleaseRequest{Resource: locks[0].Resource,
		Token: r.run.Token, EndTransaction: true}); err != nil {
		t.Errorf("release that ends the transaction: %v", err)
	}
	if err := <-ended; err != nil || done[0] {
		t.Errorf("finish after the release: %v (%v), want false", done, err)
	}
	if record := r.expect(t, jobs.Lost, 0); record.Reason != reasons.Released {
		t.Errorf("released run %+v", record)
	}
}

// The permission of an operator is for the resource of the request, so a token that does not hold
// that resource must not end a transaction.
func TestRefusedReleaseDoesNotEndATransaction(t *testing.T) {
	r := startRun(t)
	locks, err := r.Locks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other, err := locking.Table("other", "public")
	if err != nil {
		t.Fatal(err)
	}
	used := storage.Action{Actor: "ann", Via: "cli", Key: "k"}
	if _, err := r.Pause(t.Context(), used, storage.Target{Kind: storage.TargetAll}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		action   storage.Action
		resource locking.Resource
		want     error
	}{
		"other resource": {byHand, other, storage.ErrConflict},
		"used key":       {used, locks[0].Resource, storage.ErrKeyUsed},
	} {
		t.Run(name, func(t *testing.T) {
			release := storage.ReleaseRequest{Resource: c.resource, Token: r.run.Token,
				EndTransaction: true}
			if err := sqlite.InTx(t.Context(), r.run, func(tx *sql.Tx) error {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				if _, err := r.Release(ctx, c.action, release); err == nil {
					t.Error("release during the transaction: got success, want an error")
				}
				return insertSale(tx)
			}); err != nil {
				t.Errorf("transaction of the run: %v", err)
			}
			if _, err := r.Release(t.Context(), c.action, release); !errors.Is(err, c.want) {
				t.Errorf("release: %v, want %v", err, c.want)
			}
		})
	}
	r.expect(t, jobs.Running, 2)
}

// A handler that was abandoned must not keep the only writer, nor commit later. Its transaction has
// a context of its own, which does not end with the run.
func TestFinishOfARunWhoseHandlerWasAbandoned(t *testing.T) {
	r := startRun(t)
	inside, ended := make(chan bool), make(chan error, 1)
	go func() {
		ended <- sqlite.InTx(context.Background(), r.run, func(tx *sql.Tx) error {
			err := insertSale(tx)
			close(inside)
			for until := time.Now().Add(10 * time.Second); err == nil && time.Now().Before(until); {
				_, err = tx.Exec("SELECT 1") // until the transaction has been ended
			}
			return err
		})
	}()
	<-inside
	end := storage.FinishRequest{Run: r.run.ID, Token: r.run.Token, State: jobs.TimedOut,
		Reason: reasons.Timeout, LeftBehind: true}
	done, err := r.Finish(t.Context(), []storage.FinishRequest{end})
	if err != nil || !done[0] {
		t.Errorf("finish: %v, %v, want the run to end", done, err)
	}
	if err := <-ended; err == nil {
		t.Error("commit of an abandoned handler: got success, want an error")
	}
	if record := r.expect(t, jobs.TimedOut, 0); record.Reason != reasons.Timeout {
		t.Errorf("run %+v", record)
	}
}

// The scheduler finds the actions of the command line when it polls, and obeys them.
func TestToolActsBesideAScheduler(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast.db")
	s := openAt(t, path)
	session := openSession(t, s)
	requests := batch(t, 2)
	first, second := requests[0], requests[1]
	results, err := s.Start(t.Context(), session, []storage.StartRequest{first})
	if err != nil || results[0].Outcome != storage.StartGranted {
		t.Fatalf("start %+v (%v)", results, err)
	}
	tool, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tool.Close()
	before, err := s.ControlState(t.Context(), session, -1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tool.Pause(t.Context(), byHand,
		storage.Target{Kind: storage.TargetAll}); err != nil {
		t.Fatal(err)
	}
	if _, err := tool.Cancel(t.Context(), byHand, first.Run); err != nil {
		t.Fatal(err)
	}
	if err := tool.Drain(t.Context(), byHand, session, true); err != nil {
		t.Fatal(err)
	}
	after, err := s.ControlState(t.Context(), session, before.Generation)
	if err != nil || len(after.Pauses) != 1 || len(after.Cancels) != 1 || !after.Draining {
		t.Errorf("orders %+v (%v)", after, err)
	}
	if results, err := s.Start(t.Context(), session, []storage.StartRequest{second}); err != nil ||
		results[0].Outcome != storage.StartPaused {
		t.Errorf("start while all is paused: %+v (%v)", results, err)
	}
	if err := tool.Drain(t.Context(), byHand, uuid.New(), true); !errors.Is(err,
		storage.ErrNotFound) {
		t.Errorf("drain of an unknown session: %v", err)
	}
	locks, err := tool.Locks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tool.Release(t.Context(), byHand,
		storage.ReleaseRequest{Resource: locks[0].Resource, Token: results[0].Token}); err != nil {
		t.Errorf("release: %v", err)
	}
	if heartbeat, err := s.Heartbeat(t.Context(), session, storage.ReplicaStatus{}); err != nil ||
		len(heartbeat.Claims) != 0 {
		t.Errorf("heartbeat %+v (%v)", heartbeat, err)
	}
}
