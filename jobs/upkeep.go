package jobs

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
)

const (
	adoptEvery   = time.Second
	misfireEvery = 5 * time.Second
	listsEvery   = 5 * time.Second
)

// upkeep does what any replica may do for all: it sweeps dead sessions,
// adopts waiting runs, and records dues that nobody started.
type upkeep struct {
	*engine
	table  cronTable
	ready  *ready
	keeper *keeper
	lists  *serverLists
	every  time.Duration // between sweeps
}

// run does the upkeep until ctx ends. Each kind of work goes on when another
// fails: a failure is logged and tried again.
func (u *upkeep) run(ctx context.Context) {
	var swept, checked, compared time.Time
	for {
		if session, err := u.keeper.wait(ctx); err == nil {
			now := time.Now()
			if now.Sub(swept) >= u.every {
				swept = now
				u.sweep(ctx)
			}
			if now.Sub(checked) >= misfireEvery {
				checked = now
				u.checkMisfires(ctx)
			}
			if now.Sub(compared) >= listsEvery {
				compared = now
				u.lists.compare(ctx)
			}
			u.adopt(ctx, session)
		}
		select {
		case <-time.After(adoptEvery):
		case <-ctx.Done():
			return
		}
	}
}

// sweep ends dead sessions, and removes what their runs left in stage 1: the
// store has freed the tables, nobody should wait for a lease.
func (u *upkeep) sweep(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	recoverable := make(map[string]bool, len(u.table))
	for name, e := range u.table {
		if e.Recover {
			recoverable[name] = true
		}
	}
	swept, err := u.store.Sweep(bounded, recoverable)
	if err != nil && ctx.Err() == nil {
		u.log.Warn().Err(err).Msg("sweep not done")
	}
	for _, replica := range swept.Sessions {
		u.log.Warn().Str("dead_replica", replica).Int("ended_transactions", swept.Ended).Msg("session expired")
	}
	for _, lost := range swept.Lost {
		u.log.Warn().Str("job", lost.Job).Stringer("run", lost.ID).Time("due", lost.Due).Str("dead_replica", lost.Replica).
			Int64("token", int64(lost.Token)).Msg("run lost with its replica")
		u.clear(bounded, lost)
	}
}

// clear removes a lost run's stage-1 locks.
func (u *upkeep) clear(ctx context.Context, lost Record) {
	e := u.table[lost.Job]
	if u.locker == nil || e == nil {
		return
	}
	if err := u.locker.Clear(ctx, e.requests, lost.ID.String()); err != nil {
		u.log.Debug().Err(err).Str("job", lost.Job).Msg("locks of a lost run not removed, they expire")
	}
}

// adopt takes up waiting runs that no living replica has: triggered,
// recovered, late, or left by a dead one. It takes no more than it can run.
func (u *upkeep) adopt(ctx context.Context, session *life) {
	if u.ready.len() > 0 || len(u.table) == 0 {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	records, err := u.store.Adopt(bounded, session.id, u.table.names(), u.capacity)
	if err != nil {
		if ctx.Err() == nil && session.ctx.Err() == nil {
			u.log.Warn().Err(err).Msg("waiting runs not looked for")
		}
		return
	}
	slices.SortFunc(records, func(a, b Record) int { return a.Due.Compare(b.Due) })
	for _, r := range records {
		u.log.Info().Str("job", r.Job).Stringer("run", r.ID).Time("due", r.Due).Str("reason", string(r.Reason)).Msg("waiting run adopted")
		u.ready.push(pending{
			entry: u.table[r.Job], firing: Firing{Job: r.Job, Due: r.Due, Key: r.Key, Recovery: r.Recovery},
			adopted: r.ID, session: session.id, attempt: r.Attempt, late: u.late(r), since: u.clock.now(),
		})
	}
}

// late reports whether a waiting run is a misfire that is run late. Its reason
// may have changed since.
func (u *upkeep) late(r Record) bool {
	return r.Key == "" && r.Recovery == 0 && u.clock.now().Sub(r.Due) > u.table[r.Job].MisfireThreshold
}

// checkMisfires records dues that nobody started, of jobs whose definition is
// this replica's.
func (u *upkeep) checkMisfires(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	until := make(map[string]time.Time, len(u.table))
	for name, e := range u.table {
		if !e.stale.Load() {
			until[name] = u.clock.now().Add(-e.MisfireThreshold).Truncate(time.Microsecond)
		}
	}
	found := map[string]int{}
	done, err := u.store.CheckMisfires(bounded, until, func(job string, c Cursor) []Misfired {
		misfired := misfires(u.table[job], c, until[job])
		found[job] = len(misfired)
		return misfired
	})
	if err != nil {
		if ctx.Err() == nil {
			u.log.Warn().Err(err).Msg("misfires not checked")
		}
		return
	}
	for _, job := range slices.Sorted(maps.Keys(found)) {
		if done && found[job] > 0 {
			u.log.Warn().Str("job", job).Int("dues", found[job]).Str("policy", string(u.table[job].Misfire)).Msg("dues were not started in time")
		}
	}
}

// stillOurs reports whether an adopted run belongs to the session: one that
// was adopted under a session since lost may be another's by now.
func (p pending) stillOurs(session *life) bool {
	return p.adopted == uuid.Nil || p.session == session.id
}
