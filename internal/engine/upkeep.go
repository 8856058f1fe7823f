package engine

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// upkeep does what any replica may do for the cluster. It sweeps expired sessions, adds runs of
// dependents, adopts waiting runs, and records misfires.
type upkeep struct {
	*engine
	table  *cronTable
	ready  *ready
	keeper *keeper
	drift  *drift
	every  time.Duration // between heartbeats
	// the weight of misfire checks that the store can execute in one call, as measured
	page int
	// jobs whose scheduled times a pause held back at the last misfire check
	held map[string]bool
}

// run does the upkeep until ctx ends. Failures are logged and retried, and do not stop the other
// tasks.
func (u *upkeep) run(ctx context.Context) {
	var swept, checked, compared time.Time
	for {
		if session, err := u.keeper.Wait(ctx); err == nil {
			now := time.Now()
			if now.Sub(swept) >= min(u.every, u.pollIntervals.sweep) {
				swept = now
				u.sweep(ctx)
			}
			if now.Sub(checked) >= u.pollIntervals.misfires {
				checked = now
				u.checkMisfires(ctx)
			}
			if now.Sub(compared) >= u.pollIntervals.lists {
				compared = now
				u.drift.compare(ctx)
			}
			u.addDependents(ctx)
			u.adopt(ctx, session)
		}
		select {
		case <-time.After(u.pollIntervals.adopt):
		case <-ctx.Done():
			return
		}
	}
}

// sweep ends expired sessions, and removes the advisory locks of their runs: the store has freed
// the resources, so no run should wait for a lease.
func (u *upkeep) sweep(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	swept, err := u.store.Sweep(bounded)
	if err != nil && ctx.Err() == nil {
		u.log.Warn().Err(err).Msg("sweep failed")
	}
	for _, replica := range swept.Sessions {
		u.log.Warn().Str("dead_replica", replica).Int("ended_transactions", swept.Ended).
			Msg("session expired")
	}
	for _, lost := range swept.Lost {
		u.log.Warn().Str("job", lost.Job).Stringer("run", lost.ID).
			Time("scheduled_at", lost.ScheduledAt).Str("dead_replica", lost.Replica).
			Int64("token", int64(lost.Token)).Msg("run lost with its replica")
		u.publishLost(lost)
		u.clear(bounded, lost)
	}
	for _, lock := range swept.Released {
		u.log.Warn().Str("dead_replica", lock.Owner.Replica).Str("program", lock.Owner.Job).
			Int64("token", int64(lock.Token)).
			Msg("lock of a dead program released")
	}
	if u.locker != nil {
		if err := u.locker.ClearReleased(bounded, swept.Released); err != nil {
			u.log.Debug().Err(err).Msg("remove advisory locks of dead programs failed, they expire")
		}
	}
}

// clear removes the advisory locks of a lost run.
func (u *upkeep) clear(ctx context.Context, lost storage.LostRun) {
	if u.locker == nil {
		return
	}
	if err := u.locker.Clear(ctx, lost.Held, lost.ID.String()); err != nil {
		u.log.Debug().Err(err).Str("job", lost.Job).
			Msg("remove advisory locks of a lost run failed, they expire")
	}
}

// adopt adopts waiting runs that no live replica has: triggered, recovered, late, or left by
// another replica. It leaves runs of jobs that other replicas fire. It also finds waiting runs of
// this replica that it does not track: a reply of the store was lost, or a note failed.
func (u *upkeep) adopt(ctx context.Context, session *liveSession) {
	wanted := storage.Adoption{Limit: u.room(), Late: u.ready.lateRoom()}
	entries := map[string]*entry{}
	for _, e := range u.adoptable() {
		entries[e.Name] = e
		wanted.Jobs = append(wanted.Jobs,
			storage.AdoptedJob{Name: e.Name, Priority: e.EffectivePriority(),
				Threshold: e.lateAfter()})
	}
	if wanted.Limit == 0 || len(entries) == 0 || u.controlState.draining() ||
		u.clockLimit.check(time.Now()) != nil {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	known, end := u.active.watch()
	wanted.Known = known
	records, err := u.store.Adopt(bounded, session.ID, wanted)
	begun := end()
	if err != nil {
		if ctx.Err() == nil && session.Context().Err() == nil {
			u.log.Warn().Err(err).Msg("adopt waiting runs failed")
		}
		return
	}
	records = slices.DeleteFunc(records, func(r jobs.Record) bool { return begun[r.ID] })
	for _, r := range records {
		// also if the job was removed meanwhile: no other replica would find the run
		e := entries[r.Job]
		u.log.Info().Str("job", r.Job).Stringer("run", r.ID).Time("scheduled_at", r.ScheduledAt).
			Str("reason", string(r.Reason)).Msg("waiting run adopted")
		u.ready.push(pending{
			entry: e, firing: jobs.Firing{Job: r.Job, ScheduledAt: r.ScheduledAt, Key: r.Key,
				Recovery: r.Recovery},
			adopted: r.ID, session: session.ID, attempt: max(r.Attempt, 1), late: u.late(e, r),
			since: u.clock.now(), queued: r.WaitSince,
			obstacle: r.BlockerText(), triggerParams: r.Params, startBy: r.StartBy,
			done: u.active.track(r.ID),
		})
	}
}

// adoptable returns the jobs whose runs this replica may adopt. It leaves out jobs whose groups
// have no free slot on this replica; another replica may have one.
func (u *upkeep) adoptable() []*entry {
	return slices.DeleteFunc(u.table.activeDefinitions(), u.ready.full)
}

// lateAfter returns how long after its scheduled time a run is late, with the largest delay by
// jitter. The scheduled time does not decide that for a dependent.
func (e *entry) lateAfter() time.Duration {
	if len(e.Schedule.After()) > 0 {
		const never = 100 * 365 * 24 * time.Hour
		return never
	}
	return e.MisfireThreshold + e.Schedule.MaxDelay()
}

// room returns how many runs to adopt: as many as can start at once. It is at least one if none is
// queued, so that adopted runs do not starve behind scheduled firings.
func (u *upkeep) room() int {
	if u.ready.adoptedLen() == 0 {
		return max(u.workers.free(), 1)
	}
	return u.workers.free()
}

// late reports whether a waiting run is a late run. Its reason may have changed since its record
// was written.
func (u *upkeep) late(e *entry, r jobs.Record) bool {
	if len(e.Schedule.After()) > 0 { // its scheduled time is that of its dependencies
		return r.Key == "" && r.Recovery == 0 &&
			(r.Reason == jobs.ReasonMisfire || r.Reason == jobs.ReasonNoWorker ||
				u.clock.now().Sub(r.CreatedAt) > e.MisfireThreshold)
	}
	return r.Key == "" && r.Recovery == 0 && e.overdue(r.ScheduledAt, u.clock.now())
}

// stillOurs reports whether an adopted run belongs to the session. If its session was lost, another
// replica may have it by now.
func (p pending) stillOurs(session *liveSession) bool {
	return p.adopted == uuid.Nil || p.session == session.ID
}
