package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/internal/batch"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// sharedTimeout bounds a call of share.
	sharedTimeout = 4 * time.Second
	// unsharedFor is how long the runs of a job share no transaction after its statements have
	// failed, or taken long in one.
	unsharedFor = time.Minute
	maxUnshared = 10_000 // jobs
)

// sharer executes the statements of concurrent runs in shared transactions. It may be used
// concurrently.
type sharer struct {
	store  *Store
	calls  *batch.Batch[*sharedRun, struct{}]
	limits sharedLimits

	mu       sync.Mutex
	unshared map[string]time.Time // until when the runs of a job share no transaction
}

// sharedRun is a run whose statements may share a transaction with those of other runs. Unless
// share sets one of committed, lostReply and err, the statements have had no effect, and the run
// must execute them in a transaction of its own.
type sharedRun struct {
	ctx        context.Context
	run        *jobs.Run
	statements []storage.Statement
	taken      atomic.Bool // by share, or by the end of ctx

	// set by share
	rows      []int64
	output    string
	committed bool
	lostReply error // the reply to the commit was lost
	err       error // ctx ended before the statements began
}

func newSharer(s *Store) *sharer {
	sh := &sharer{store: s, limits: newSharedLimits(), unshared: map[string]time.Time{}}
	sh.calls = batch.New(batch.Options[*sharedRun, struct{}]{Timeout: sharedTimeout,
		Most: maxShared, Whole: func(error, time.Duration) bool { return true },
		Send: func(ctx context.Context, runs []*sharedRun) ([]struct{}, error) {
			sh.share(ctx, runs)
			return make([]struct{}, len(runs)), nil
		}})
	return sh
}

// execute executes the statements of a run in one transaction with those of concurrent runs. It
// reports false if they have had no effect, and should be executed in a transaction of their own.
//
// If ctx ends after the call of share has begun, execute waits for the end of this call.
func (sh *sharer) execute(ctx context.Context, run *jobs.Run,
	statements []storage.Statement) (rows []int64, done bool, err error) {
	inside := run.Internal(attempt.NewKey())
	if inside.Saved() != nil || slices.ContainsFunc(statements, controlsTransaction) ||
		!sh.mayShare(run.Job) {
		return nil, false, nil
	}
	r := &sharedRun{ctx: ctx, run: run, statements: statements}
	if err := sh.ask(r); err != nil {
		return nil, false, wrap("shared transaction", err)
	}
	if r.lostReply != nil {
		r.committed, r.err = sh.store.hasCommitted(ctx, run, r.lostReply)
	}
	if !r.committed && r.err == nil {
		// The cause is nil unless ctx has ended. Then the run cannot begin a transaction of its own
		// either.
		r.err = context.Cause(ctx)
	}
	switch {
	case r.err != nil:
		return nil, false, wrap("shared transaction", r.err)
	case !r.committed:
		return nil, false, nil
	}
	inside.Complete(string(jobs.Succeeded))
	fmt.Fprint(run.Output(), r.output)
	return r.rows, true, run.SetResult(storage.RowsAffected{Rows: r.rows})
}

// ask waits for the call of share that has the run, or for the end of its context before this call.
func (sh *sharer) ask(r *sharedRun) error {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.ctx))
	defer cancel(nil)
	defer context.AfterFunc(r.ctx, func() {
		if !r.taken.Swap(true) {
			cancel(context.Cause(r.ctx))
		}
	})()
	_, err := sh.calls.Ask(ctx, r)
	return err
}

// share executes the statements of the runs in shared transactions, one after the other. After a
// failure, the other runs share another transaction.
func (sh *sharer) share(ctx context.Context, runs []*sharedRun) {
	remaining := slices.DeleteFunc(slices.Clone(runs), func(r *sharedRun) bool {
		return r.taken.Swap(true)
	})
	for start := time.Now(); len(remaining) > 0 && time.Since(start) < sh.limits.call; {
		var err error
		if remaining, err = sh.shareTx(ctx, remaining); err != nil {
			sh.store.log.Debug().Err(err).Msg("shared transaction failed")
		}
	}
}

// mayShare reports whether runs of the job may share transactions.
func (sh *sharer) mayShare(job string) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	until, found := sh.unshared[job]
	if found && time.Now().After(until) {
		delete(sh.unshared, job)
		return true
	}
	return !found
}

// exclude makes the next runs of the job have transactions of their own.
func (sh *sharer) exclude(job string) {
	sh.store.log.Info().Str("job", job).Dur("again_in", unsharedFor).
		Msg("runs of this job share no transaction for a while")
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if len(sh.unshared) >= maxUnshared {
		clear(sh.unshared)
	}
	sh.unshared[job] = time.Now().Add(unsharedFor)
}
