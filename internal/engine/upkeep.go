package engine

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/internal/sleep"
)

// wakeInterval is the shortest time between rounds of the upkeep. It bounds what a stream of
// triggers costs.
const wakeInterval = 20 * time.Millisecond

// upkeep does what any replica may do for the cluster. It sweeps expired sessions, adds runs of
// dependents and backfills, adopts waiting runs, records misfires, and seals the audit log.
//
// Each interval it does what has its turn on this replica (see turns). If the process of a session
// is gone, it sweeps at once. If a session is not renewed, it sweeps when this session has expired.
// It adopts runs at once when an action was announced, which may be a trigger, and when the last
// adoption left some. It adds runs of dependents and backfills at once when a run that concerns
// them has ended on this replica.
type upkeep struct {
	keeper     *keeper
	turns      turns
	intervals  *pollIntervals
	wakes      *wakes
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
	var sweep, swept, checked, compared, sealed, all, polled time.Time
	for woken := true; ; {
		more := false
		round := time.Now()
		regular := round.Sub(all) >= u.intervals.adopt
		if session, err := u.keeper.Wait(ctx); err == nil {
			now := time.Now()
			poll := regular && u.turns.has(u.intervals.adopt, polled)
			if regular {
				all = now
			}
			if poll {
				polled = now
			}
			sweeps := regular && u.sweeper.expire(ctx, session.ID) ||
				!now.Before(sweep) && u.turns.has(u.intervals.sweep, swept)
			if sweeps {
				swept = now
				sweep = now.Add(u.sweepInterval(u.sweeper.sweep(ctx)))
			}
			if now.Sub(checked) >= u.intervals.misfires &&
				u.turns.has(u.intervals.misfires, checked) {
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
			if u.wakes.dependents.Swap(false) || poll {
				u.dependents.add(ctx)
			}
			if u.wakes.backfills.Swap(false) || poll {
				u.backfills.advance(ctx)
			}
			if woken || poll || sweeps {
				more = u.adopter.adopt(ctx, session)
			}
		}
		woken = more || u.wait(ctx, all)
		if sleep.For(ctx, time.Until(round.Add(wakeInterval))) != nil {
			return
		}
	}
}

// sweepInterval returns the time until the next sweep. expiry is the time until the next session
// expires, or 0 if that is unknown. Sessions of live replicas are renewed long before they expire.
func (u *upkeep) sweepInterval(expiry time.Duration) time.Duration {
	interval := min(u.heartbeat, u.intervals.sweep)
	if expiry > 0 {
		interval = min(interval, expiry)
	}
	return interval
}

// wait waits for the next interval, or until something wakes the upkeep. It reports whether
// something did.
func (u *upkeep) wait(ctx context.Context, all time.Time) (woken bool) {
	timer := sleep.Timer(time.Until(all.Add(u.intervals.adopt)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-u.wakes.signal:
		return true
	case <-ctx.Done():
	}
	return false
}
