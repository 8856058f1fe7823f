package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// errEnded is the cause with which a job's transaction ends when an operator releases its claim.
var errEnded = errors.New("transaction was ended by an operator")

// endTimeout bounds the wait for the end of a job's transaction.
const endTimeout = 5 * time.Second

// fencing holds the job's open transaction, if there is one: that has the writer. It may be used
// concurrently.
type fencing struct {
	mu    sync.Mutex
	token jobs.Token
	end   context.CancelCauseFunc
	ended chan struct{}
}

// begin records the transaction of a token. The caller has the writer, and calls the returned
// function when it releases the writer.
func (f *fencing) begin(ctx context.Context, token jobs.Token) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	ended := make(chan struct{})
	f.token, f.end, f.ended = token, cancel, ended
	return ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.token = 0
		close(ended)
		cancel(nil)
	}
}

// yield waits until the token has no open transaction. It returns how many it has ended for that.
// It ends a transaction only if the request says so.
func (f *fencing) yield(ctx context.Context, r storage.ReleaseRequest) (int, error) {
	f.mu.Lock()
	token, end, ended := f.token, f.end, f.ended
	f.mu.Unlock()
	if token != r.Token {
		return 0, nil
	}
	if !r.EndTransaction {
		return 0, fmt.Errorf("token %d: %w", r.Token, storage.ErrInTransaction)
	}
	end(errEnded)
	select {
	case <-ended:
		return 1, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-time.After(endTimeout):
		return 0, fmt.Errorf("token %d, whose transaction does not end: %w", r.Token,
			storage.ErrInTransaction)
	}
}
