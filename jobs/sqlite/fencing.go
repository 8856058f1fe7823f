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
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// errEnded is the cause with which a job's transaction ends when an operator releases its claim.
var errEnded = errors.New("transaction was ended by an operator")

// endTimeout bounds the wait for the end of a job's transaction.
const endTimeout = 5 * time.Second

// fencing has the open transaction of a job, if any. This transaction has the writer. It may be
// used concurrently.
type fencing struct {
	mu   sync.Mutex
	open *openTx // nil: none
}

// openTx is a job's open transaction.
type openTx struct {
	run         uuid.UUID
	token       jobs.Token
	end         context.CancelCauseFunc
	ended       chan struct{}
	cancelledBy string    // the actor of a cancel; "" if there is none
	next        []*func() // writes that follow the transaction before any other write
}

// begin records the transaction of a run. The caller has the writer. It calls the returned function
// between the end of the transaction and the release of the writer.
func (f *fencing) begin(ctx context.Context, run *jobs.Run) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	tx := &openTx{run: run.ID, token: run.Token, end: cancel, ended: make(chan struct{})}
	f.open = tx
	return ctx, func() {
		for write := f.close(tx); write != nil; write = f.close(tx) {
			(*write)()
		}
		close(tx.ended)
		cancel(nil)
	}
}

// close takes the first of the next writes, or forgets the transaction if there is none.
func (f *fencing) close(tx *openTx) (write *func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(tx.next) == 0 {
		f.open = nil
		return nil
	}
	write, tx.next = tx.next[0], tx.next[1:]
	return write
}

// cancel notes who cancels the run, and the write that follows its transaction. It returns false if
// the run has no open transaction.
func (f *fencing) cancel(run uuid.UUID, actor string, write func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil || f.open.run != run {
		return false
	}
	if f.open.cancelledBy == "" {
		f.open.cancelledBy = actor
	}
	f.open.next = append(f.open.next, &write)
	return true
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

// yield waits until the token has no open transaction. It ends one only if the request says so.
// After it has ended a transaction, write runs before any other caller gets the writer, and yield
// returns 1. Without an open transaction, write does not run, and yield returns 0.
func (f *fencing) yield(ctx context.Context, r storage.ReleaseRequest, write func()) (int, error) {
	tx, err := f.endFor(r, &write)
	if tx == nil {
		return 0, err
	}
	select {
	case <-tx.ended:
		return 1, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-time.After(endTimeout):
		err = fmt.Errorf("token %d, whose transaction does not end: %w", r.Token,
			storage.ErrInTransaction)
	}
	if f.withdraw(tx, &write) {
		return 0, err
	}
	<-tx.ended
	return 1, nil
}

// endFor ends the token's open transaction, which the write follows. It returns nil if there is no
// transaction, or if the request does not allow to end it.
func (f *fencing) endFor(r storage.ReleaseRequest, write *func()) (*openTx, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.open == nil || f.open.token != r.Token:
		return nil, nil
	case !r.EndTransaction:
		return nil, fmt.Errorf("token %d: %w", r.Token, storage.ErrInTransaction)
	}
	f.open.next = append(f.open.next, write)
	f.open.end(errEnded)
	return f.open, nil
}

// withdraw removes one of the next writes. It returns false if the write has begun.
func (f *fencing) withdraw(tx *openTx, write *func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.Index(tx.next, write)
	if i >= 0 {
		tx.next = slices.Delete(tx.next, i, i+1)
	}
	return i >= 0
}
