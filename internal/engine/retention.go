package engine

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	pruneEvery = time.Minute
	pruneBatch = 500 // runs; takes the store some milliseconds
	// A batch that begins at the oldest run may take at most a hundredth of the time.
	pruneWhole = 100
)

// retention deletes old history in small batches. One replica does it at a time, usually for at
// most a fifth of the time, so that starts are not slowed down (see prunePace).
type retention struct {
	store  pruner
	keeper *keeper
	keep   time.Duration // 0: no limit
	// keepTriggered is keep for runs of triggers; 0: keep.
	keepTriggered time.Duration
	log           zerolog.Logger

	// visited is the last run of a batch; nil: none. Until whole, rounds begin after it, and not at
	// the oldest run. PostgreSQL reads the index entries of deleted runs before it until it vacuums
	// the table, which may be after hundreds of millions of runs.
	visited *storage.RunCursor
	whole   time.Time
}

// run prunes until ctx ends.
func (r *retention) run(ctx context.Context) {
	if r.keep == 0 {
		return
	}
	for {
		sleep.For(ctx, pruneEvery)
		session, err := r.keeper.Wait(ctx)
		if err != nil || ctx.Err() != nil {
			return
		}
		r.round(ctx, session)
	}
}

// round prunes everything that is old by now. The next round repeats what failed.
func (r *retention) round(ctx context.Context, session *liveSession) {
	for _, request := range storage.PruneRequests(r.keep, r.keepTriggered, pruneBatch) {
		if !request.Triggered && time.Now().Before(r.whole) {
			request.After = r.visited
		}
		if !r.prune(ctx, session, request) {
			return
		}
	}
}

// prune repeats a request until nothing is left to prune. It returns false if it has given up.
func (r *retention) prune(ctx context.Context, session *liveSession,
	request storage.PruneRequest) (done bool) {
	start, runs, batches := time.Now(), 0, 0
	pace := newPrunePace()
	for {
		bounded, cancel := context.WithTimeout(ctx, batchTimeout)
		sent := time.Now()
		pruned, err := r.store.Prune(bounded, session.ID, request)
		cancel()
		if !request.Triggered && request.After == nil {
			r.whole = sent.Add(pruneWhole * time.Since(sent))
		}
		if pruned.Next != nil {
			r.visited = pruned.Next
		}
		if err != nil && ctx.Err() == nil {
			r.log.Warn().Err(err).Msg("prune history failed, retrying in the next round")
		}
		runs, batches = runs+pruned.Runs, batches+1
		var more bool
		if request, more = request.Rest(pruned); err != nil || !more {
			done = err == nil && !pruned.Busy
			break
		}
		sleep.For(ctx, pace.pause(time.Since(sent), pruned.Next))
		if session.Context().Err() != nil || ctx.Err() != nil {
			break
		}
	}
	if runs > 0 {
		r.log.Debug().Int("runs", runs).Int("batches", batches).
			Bool("triggered", request.Triggered).Dur("took", time.Since(start)).
			Msg("history pruned")
	}
	return done
}
