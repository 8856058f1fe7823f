package engine

import (
	"context"
	"time"
)

// upkeep does what any replica may do for the cluster. It sweeps expired sessions, adds runs of
// dependents and backfills, adopts waiting runs, records misfires, and seals the audit log.
type upkeep struct {
	keeper     *keeper
	intervals  *pollIntervals
	heartbeat  time.Duration // between heartbeats
	sweeper    *sweeper
	misfires   *misfireChecker
	drift      *drift
	dependents *dependents
	backfills  *backfiller
	adopter    *adopter
	sealer     *sealer
}

// run does the upkeep until ctx ends. Failures are logged and retried, and do not stop the other
// tasks.
func (u *upkeep) run(ctx context.Context) {
	var swept, checked, compared, sealed time.Time
	for {
		if session, err := u.keeper.Wait(ctx); err == nil {
			now := time.Now()
			if now.Sub(swept) >= min(u.heartbeat, u.intervals.sweep) {
				swept = now
				u.sweeper.sweep(ctx)
			}
			if now.Sub(checked) >= u.intervals.misfires {
				checked = now
				u.misfires.check(ctx)
			}
			if now.Sub(compared) >= u.intervals.lists {
				compared = now
				u.drift.compare(ctx)
			}
			if now.Sub(sealed) >= u.intervals.seal {
				sealed = now
				u.sealer.seal(ctx)
			}
			u.dependents.add(ctx)
			u.backfills.advance(ctx)
			u.adopter.adopt(ctx, session)
		}
		select {
		case <-time.After(u.intervals.adopt):
		case <-u.backfills.ended:
		case <-ctx.Done():
			return
		}
	}
}
