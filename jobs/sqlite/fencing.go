package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// errEnded is why a job's transaction ends when an operator takes its claim.
var errEnded = errors.New("transaction was ended by an operator")

// endPatience is how long a job's transaction that is to end may take to.
const endPatience = 5 * time.Second

// fencing is the job's transaction under way, if there is one: it has the
// writer. It may be used concurrently.
type fencing struct {
	mu    sync.Mutex
	token jobs.Token
	end   context.CancelCauseFunc
	ended chan struct{}
}

// begin notes the transaction of a token. Whoever calls it has the writer, and
// calls the function that it returns when that is given back.
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

// yield returns once no transaction of the token is under way, and how many it
// has ended for that. It ends none unless it is asked to.
func (f *fencing) yield(ctx context.Context, r jobs.ReleaseRequest) (int, error) {
	f.mu.Lock()
	token, end, ended := f.token, f.end, f.ended
	f.mu.Unlock()
	if token != r.Token {
		return 0, nil
	}
	if !r.EndTransaction {
		return 0, fmt.Errorf("token %d: %w", r.Token, jobs.ErrInTransaction)
	}
	end(errEnded)
	select {
	case <-ended:
		return 1, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-time.After(endPatience):
		return 0, fmt.Errorf("token %d, whose transaction does not end: %w", r.Token,
			jobs.ErrInTransaction)
	}
}
