package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// queued is a run that waits for the writer, because another run is inside a transaction.
type queued struct {
	running
	announced <-chan struct{}
	letIn     chan struct{} // closed: the other run ends its transaction
	inside    bool          // the run got its transaction
	commit    chan struct{} // closed: the run ends its transaction
	ended     chan error    // by the transaction of the run
}

// queueRun must be called in a bubble of synctest.
func queueRun(t *testing.T) *queued {
	t.Helper()
	q := &queued{running: startRun(t), letIn: make(chan struct{}), commit: make(chan struct{}),
		ended: make(chan error, 1)}
	q.announced = heard(t, q.Store)
	request := batch(t, 1)[0]
	results, err := q.Start(t.Context(), q.session, []storage.StartRequest{request})
	if err != nil || results[0].Outcome != storage.StartGranted {
		t.Fatalf("start %+v (%v)", results, err)
	}
	other := jobstest.StoredRun(q.Store, request, results[0].Token)
	go func() {
		if err := sqlite.InTx(t.Context(), other, func(*sql.Tx) error {
			<-q.letIn
			return nil
		}); err != nil {
			t.Error(err)
		}
	}()
	synctest.Wait()
	go func() {
		q.ended <- sqlite.InTx(t.Context(), q.run, func(tx *sql.Tx) error {
			q.inside = true
			<-q.commit
			return insertSale(tx)
		})
	}()
	synctest.Wait()
	return q
}

// A cancel waits for the writer behind its run. It must reach the transaction that the run gets.
func TestCancelOfARunThatWaitsForTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queueRun(t)
		answered := make(chan error, 1)
		go func() {
			_, err := q.Cancel(t.Context(), byHand, q.run.ID)
			answered <- err
		}()
		synctest.Wait()
		close(q.letIn)
		synctest.Wait()
		q.expectCancel(t, "during the transaction")
		select {
		case <-q.announced:
		default:
			t.Error("the cancel is not announced")
		}
		close(q.commit)
		if err := errors.Join(<-q.ended, <-answered); err != nil {
			t.Error(err)
		}
		q.expectCancel(t, "after the transaction")
		q.expectAudit(t, "cancel")
	})
}

// A caller that leaves before the run gets the writer takes its cancel back.
func TestCancelIsTakenBackBeforeTheTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queueRun(t)
		ctx, leave := context.WithCancel(t.Context())
		answered := make(chan error, 1)
		go func() {
			_, err := q.Cancel(ctx, byHand, q.run.ID)
			answered <- err
		}()
		synctest.Wait()
		leave()
		if err := <-answered; !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("cancel: %v, want ErrUnavailable", err)
		}
		close(q.letIn)
		synctest.Wait()
		if got := q.cancels(t, q.session); len(got) != 0 {
			t.Errorf("cancels %v, want none", got)
		}
		close(q.commit)
		if err := <-q.ended; err != nil {
			t.Error(err)
		}
		q.expectAudit(t)
	})
}

func TestReleaseOfARunThatWaitsForTheWriter(t *testing.T) {
	for name, end := range map[string]bool{"refused": false, "ends the transaction": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := queueRun(t)
				answered := make(chan error, 1)
				go func() {
					_, err := q.Release(t.Context(), byHand, q.release(t, end))
					answered <- err
				}()
				synctest.Wait()
				close(q.letIn)
				synctest.Wait()
				if !end {
					q.expectAnswer(t, answered, storage.ErrInTransaction)
				}
				close(q.commit)
				err := <-q.ended
				if end {
					if err == nil || q.inside {
						t.Errorf("transaction after the release: %v, want an error", err)
					}
					q.expectAnswer(t, answered, nil)
					q.expectAudit(t, "release")
					q.expect(t, jobs.Lost, 0)
					return
				}
				if err != nil {
					t.Error(err)
				}
				q.expectAudit(t)
				q.expect(t, jobs.Running, 1)
			})
		})
	}
}

// The handler of a run whose timeout has passed must not get the writer before the end of the run.
func TestFinishOfAnAbandonedHandlerThatWaitsForTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queueRun(t)
		answered := make(chan error, 1)
		go func() {
			_, err := q.Finish(t.Context(), []storage.FinishRequest{{Run: q.run.ID,
				Token: q.run.Token, State: jobs.TimedOut, Reason: reasons.Timeout,
				LeftBehind: true}})
			answered <- err
		}()
		synctest.Wait()
		close(q.letIn)
		synctest.Wait()
		q.expectAnswer(t, answered, nil)
		close(q.commit)
		if err := <-q.ended; err == nil {
			t.Error("commit of an abandoned handler: got success, want an error")
		}
		q.expect(t, jobs.TimedOut, 0)
	})
}

// After the end of its transaction, a run must not continue with its next attempt. So the release
// is written even if its caller leaves.
func TestReleaseThatEndedATransactionIsWritten(t *testing.T) {
	for name, leaves := range map[string]bool{"the caller leaves": true, "after a wait": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := queueRun(t)
				close(q.letIn)
				synctest.Wait()
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				answered := make(chan error, 1)
				go func() {
					_, err := q.Release(ctx, byHand, q.release(t, true))
					answered <- err
				}()
				synctest.Wait()
				if leaves {
					leave()
				}
				if err := <-answered; !errors.Is(err, storage.ErrUnavailable) {
					t.Errorf("release: %v, want ErrUnavailable", err)
				}
				close(q.commit)
				if err := <-q.ended; err == nil {
					t.Error("commit after the release: got success, want an error")
				}
				q.expectAudit(t, "release")
				q.expect(t, jobs.Lost, 0)
			})
		})
	}
}

// Nobody else learns that a cancel was not written if its caller has left.
func TestLateFailureOfACancelIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRun(t)
		var log bytes.Buffer
		r.LogTo(zerolog.New(&log))
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		if err := sqlite.CompleteInTx(t.Context(), r.run, func(*sql.Tx) error {
			answered := make(chan error, 1)
			go func() {
				_, err := r.Cancel(ctx, byHand, r.run.ID)
				answered <- err
			}()
			synctest.Wait()
			leave()
			if err := <-answered; !errors.Is(err, storage.ErrUnavailable) ||
				!strings.Contains(fmt.Sprint(err), "the cancel stands and will be written") {
				t.Errorf("cancel: %v, want ErrUnavailable with what will happen", err)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := log.String(); !strings.Contains(got, "has ended as succeeded") ||
			!strings.Contains(got, `"action":"cancel"`) {
			t.Errorf("log %q, want the failed cancel", got)
		}
		r.expectAudit(t)
	})
}

// release returns the request that releases the first lock of the run.
func (q *queued) release(t *testing.T, endTransaction bool) storage.ReleaseRequest {
	locks, err := q.Locks(t.Context())
	i := slices.IndexFunc(locks, func(l storage.LockView) bool { return l.Token == q.run.Token })
	if err != nil || i < 0 {
		t.Errorf("locks %+v (%v), want one of the run", locks, err)
		return storage.ReleaseRequest{}
	}
	return storage.ReleaseRequest{Resource: locks[i].Resource, Token: q.run.Token,
		EndTransaction: endTransaction}
}

// expectAnswer expects that there is an answer now.
func (q *queued) expectAnswer(t *testing.T, answered <-chan error, want error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-answered:
		if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	default:
		t.Errorf("no answer, want %v", want)
	}
}
