package jobs

import (
	"context"
	"time"

	"github.com/rs/zerolog"
)

const (
	pruneEvery = time.Minute
	pruneBatch = 500 // runs: some milliseconds of the store's
	pruneRest  = 4   // times what a batch took
	pruneLeast = 20 * time.Millisecond
)

// retention forgets what the history has kept long enough, in small batches:
// one replica at a time, and at most a fifth of the time, so that starts beside
// it don't notice.
type retention struct {
	store  Upkeep
	keeper *keeper
	keep   time.Duration // 0: for ever
	log    zerolog.Logger
}

// run prunes until ctx ends.
func (r *retention) run(ctx context.Context) {
	if r.keep == 0 {
		return
	}
	for {
		pause(ctx, pruneEvery)
		session, err := r.keeper.Wait(ctx)
		if err != nil || ctx.Err() != nil {
			return
		}
		r.round(ctx, session)
	}
}

// round prunes all that is old by now. What fails is tried again by the next.
func (r *retention) round(ctx context.Context, session *liveSession) {
	begun, runs, batches := time.Now(), 0, 0
	for request := (PruneRequest{Keep: r.keep, Limit: pruneBatch}); ; {
		bounded, cancel := context.WithTimeout(ctx, batchTimeout)
		sent := time.Now()
		pruned, err := r.store.Prune(bounded, session.ID, request)
		cancel()
		if err != nil && ctx.Err() == nil {
			r.log.Warn().Err(err).Msg("history not pruned, the next round goes on")
		}
		runs, batches = runs+pruned.Runs, batches+1
		if err != nil || pruned.Next == nil {
			break
		}
		request.After = pruned.Next
		pause(ctx, max(pruneLeast, pruneRest*time.Since(sent)))
		if session.Context().Err() != nil || ctx.Err() != nil {
			break
		}
	}
	if runs > 0 {
		r.log.Debug().Int("runs", runs).Int("batches", batches).Dur("took", time.Since(begun)).
			Msg("history pruned")
	}
}
