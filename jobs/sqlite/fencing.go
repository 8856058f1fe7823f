package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
)

// errEnded is the cause with which a job's transaction ends when an operator releases its claim.
var errEnded = errors.New("transaction was ended by an operator")

// endTimeout bounds the wait for the end of a job's transaction that a release has ended.
const endTimeout = 5 * time.Second

// fencing has the open transaction of a job, if any. This transaction has the writer. It may be
// used concurrently.
type fencing struct {
	mu      sync.Mutex
	open    *openTx    // nil: none
	pending []*request // of runs without an open transaction, which may wait for the writer
}

// openTx is a job's open transaction.
type openTx struct {
	run         uuid.UUID
	token       jobs.Token
	end         context.CancelCauseFunc
	cancelledBy string     // the actor of a cancel; "" if there is none
	next        []*request // whose writes follow the transaction before any other write
}

// request is what a caller asks of the run's transaction.
type request struct {
	run   uuid.UUID
	token jobs.Token // 0: of any attempt of the run
	// meet acts on the transaction, or refuses the request. It is called once, under the mutex.
	meet func(tx *openTx) error
	// write follows the transaction. The caller makes it instead if it gets the writer before.
	write func(ctx context.Context) error

	done chan struct{} // closed after refusal or write
	err  error         // of refusal or write, when done is closed
}

// begin records the transaction of a run, which meets the pending requests. The caller has the
// writer. It calls the returned function between the end of the transaction and the release of the
// writer.
func (f *fencing) begin(ctx context.Context, run *jobs.Run) (context.Context, func()) {
	fenced, cancel := context.WithCancelCause(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	tx := &openTx{run: run.ID, token: run.Token, end: cancel}
	f.open = tx
	f.pending = slices.DeleteFunc(f.pending, tx.meets)
	return fenced, func() {
		for q := f.close(tx); q != nil; q = f.close(tx) {
			// the caller of the request may have left, but its effect on the run stays
			q.err = q.write(context.WithoutCancel(ctx))
			close(q.done)
		}
		cancel(nil)
	}
}

// close takes the first of the next requests, or forgets the transaction if there is none.
func (f *fencing) close(tx *openTx) (next *request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(tx.next) == 0 {
		f.open = nil
		return nil
	}
	next, tx.next = tx.next[0], tx.next[1:]
	return next
}

// meets reports whether the transaction is that of the request, which then acts on it.
func (tx *openTx) meets(q *request) bool {
	if tx.run != q.run || q.token != 0 && tx.token != q.token {
		return false
	}
	if q.err = q.meet(tx); q.err != nil {
		close(q.done)
	} else {
		tx.next = append(tx.next, q)
	}
	return true
}

// abort ends the transaction for an operator, or for a run that is over.
func (tx *openTx) abort() error {
	tx.end(errEnded)
	return nil
}

// ask makes a request to the open transaction of its run. If there is none, the request is pending:
// it meets the next transaction of the run.
func (f *fencing) ask(q *request) {
	q.done = make(chan struct{})
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil || !f.open.meets(q) {
		f.pending = append(f.pending, q)
	}
}

// withdraw removes a pending request. It returns false if the request has met a transaction.
func (f *fencing) withdraw(q *request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.Index(f.pending, q)
	if i >= 0 {
		f.pending = slices.Delete(f.pending, i, i+1)
	}
	return i >= 0
}

// cancelled returns the run with an open transaction that somebody has asked to cancel.
func (f *fencing) cancelled() (run uuid.UUID, by string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil || f.open.cancelledBy == "" {
		return uuid.Nil, ""
	}
	return f.open.run, f.open.cancelledBy
}

// announceCancel notifies the replicas if ControlState has a cancel that is not in the file.
func (s *Store) announceCancel() {
	if _, by := s.fencing.cancelled(); by != "" {
		s.listeners.notify()
	}
}

// perform makes the write of a request: when the caller gets the writer, or after the transaction
// that the request meets before. If ctx ends then, the write is made nevertheless.
func (s *Store) perform(ctx context.Context, what string, q *request) error {
	s.fencing.ask(q)
	s.announceCancel()
	entered, err := s.enterBefore(ctx, q.done)
	if entered {
		defer s.leave()
	}
	switch {
	case !s.fencing.withdraw(q):
		return s.answer(what, q, err)
	case err != nil:
		return wrap(what, err)
	}
	return q.write(ctx)
}

// answer returns the error of a request that has met a transaction. An error of the wait is for a
// request that is not done. If its write fails later, only the log can say so.
func (s *Store) answer(what string, q *request, waiting error) error {
	select {
	case <-q.done:
		return q.err
	default:
	}
	go func() {
		if <-q.done; q.err != nil {
			s.log.Warn().Err(q.err).Str("action", what).Stringer("run", q.run).
				Msg("action failed after the transaction of its run")
		}
	}()
	return wrap(what, fmt.Errorf("run %s is inside a transaction: "+
		"the %s stands and will be written when the transaction ends: %w", q.run, what, waiting))
}
