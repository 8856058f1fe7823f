package engine

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// wakeInterval is the shortest time between rounds of the upkeep. It bounds the cost of a stream
// of triggers. Tasks without turns that are due within it are done in the same round.
const wakeInterval = 20 * time.Millisecond

// upkeep does the tasks of the cluster that any replica can do. It sweeps expired sessions, adds
// runs of dependents and backfills, adopts waiting runs, records misfires, and seals the audit log.
//
// It sleeps until one of its tasks is due on this replica: many replicas take turns (see turns). If
// the process of a session is gone, it sweeps at once. If a session is not renewed, it sweeps when
// this session has expired. It adopts runs at once when an action was announced, which may be a
// trigger, and when the last adoption left some. It adds runs of dependents and backfills at once
// when a run that concerns them has ended on this replica.
type upkeep struct {
	keeper     *keeper
	turns      turns
	intervals  *pollIntervals
	wakes      *wakes
	heartbeat  time.Duration // between heartbeats
	sweeper    *sweeper
	misfires   *misfireChecker
	dependents *dependents
	backfills  *backfiller
	adopter    *adopter
	sealer     *sealer

	// The following times belong to run's goroutine.
	polled, checked, sealed, swept time.Time // the last time of each task
	search, sweep                  time.Time // the earliest time of the next one
}

// run does the upkeep until ctx ends. Failures are logged and retried, and do not stop the other
// tasks.
func (u *upkeep) run(ctx context.Context) {
	for woken := true; ; {
		more := false
		round := time.Now()
		if session, err := u.keeper.Wait(ctx); err == nil {
			more = u.round(ctx, session, woken)
		}
		woken = more || u.wait(ctx)
		if sleep.For(ctx, time.Until(round.Add(wakeInterval))) != nil {
			return
		}
	}
}

// round does the tasks that are due. woken: there may be runs to adopt. It reports whether the
// adoption left some.
func (u *upkeep) round(ctx context.Context, session *liveSession, woken bool) (more bool) {
	now := time.Now()
	soon := now.Add(wakeInterval)
	poll := !now.Before(u.nextPoll(now))
	if poll {
		u.polled = now
	}
	sweeps := !now.Before(u.nextSweep(now))
	if !soon.Before(u.search) {
		gone := u.sweeper.expire(ctx, session.ID)
		// From the end of this search on: one that begins too early expires nothing.
		u.search = time.Now().Add(u.searchInterval(gone))
		sweeps = sweeps || len(gone.Replicas) > 0
	}
	if sweeps {
		u.swept = now
		expiry := u.sweeper.sweep(ctx)
		// from the answer on, so that the next sweep finds the session expired
		u.sweep = time.Now().Add(u.sweepInterval(expiry))
	}
	if !now.Before(u.nextCheck(now)) {
		u.checked = now
		u.misfires.check(ctx)
	}
	if !soon.Before(u.sealed.Add(u.intervals.seal)) {
		u.sealed = now
		u.sealer.seal(ctx)
	}
	if u.wakes.dependents.Swap(false) || poll {
		u.dependents.add(ctx)
	}
	if u.wakes.backfills.Swap(false) || poll {
		u.backfills.advance(ctx)
	}
	return (woken || poll || sweeps) && u.adopter.adopt(ctx, session)
}

// nextPoll returns when this replica next looks for dependents, backfills and waiting runs. If its
// last heartbeat found no runs to adopt, only its turn matters: the others add runs in theirs.
func (u *upkeep) nextPoll(now time.Time) time.Time {
	interval := u.intervals.adopt
	latest := u.turns.rarest(interval)
	if u.wakes.adoptable.Load() {
		latest = turnAtLeast * interval
	}
	return u.turns.next(now, interval, u.polled.Add(latest), u.polled.Add(interval))
}

func (u *upkeep) nextSweep(now time.Time) time.Time {
	interval := u.intervals.sweep
	return u.turns.next(now, interval, u.swept.Add(u.turns.rarest(interval)), u.sweep)
}

// nextCheck returns when this replica next checks for misfires.
func (u *upkeep) nextCheck(now time.Time) time.Time {
	interval := u.intervals.misfires
	return u.turns.next(now, interval, u.checked.Add(u.turns.rarest(interval)),
		u.checked.Add(interval))
}

// searchInterval returns the time until the next search for disconnected sessions.
func (u *upkeep) searchInterval(last storage.Disconnected) time.Duration {
	switch {
	case last.AfterHeartbeat:
		return max(u.heartbeat, u.intervals.adopt)
	case last.Again > 0:
		return min(last.Again+wakeInterval, u.intervals.adopt) // a round may begin earlier
	default:
		return u.intervals.adopt
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

// wait waits until a task is due, or until something wakes the upkeep. It reports whether something
// did.
func (u *upkeep) wait(ctx context.Context) (woken bool) {
	now := time.Now()
	next := slices.MinFunc([]time.Time{u.search, u.nextPoll(now), u.nextSweep(now),
		u.nextCheck(now), u.sealed.Add(u.intervals.seal)}, time.Time.Compare)
	timer := sleep.Timer(next.Sub(now))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-u.wakes.signal:
		return true
	case <-u.wakes.found: // the next poll may be earlier than before
	case <-ctx.Done():
	}
	return false
}
