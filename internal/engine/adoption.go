package engine

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// adopter takes over waiting runs that no live replica has, or that a stopping one has.
type adopter struct {
	store interface {
		Adopt(ctx context.Context, session uuid.UUID, a storage.Adoption) ([]storage.Record, error)
	}
	table        *cronTable
	controlState *controlState
	clock        *clusterClock
	clockLimit   *clockLimit
	workers      *workers
	active       *active
	ready        *ready
	log          zerolog.Logger
	turns        turns
	intervals    *pollIntervals
	heartbeat    time.Duration // between heartbeats
	// the last adoption may have left runs, because it had no room
	left atomic.Bool
}

// adopt adopts waiting runs that no live replica has, or that a stopping one has: triggered,
// recovered, late, or left by a replica. It leaves runs of jobs that other replicas fire. It also
// finds waiting runs of this replica that it does not track: a reply of the store was lost, or a
// note failed. It reports whether there may be more of them, because it had no room.
func (a *adopter) adopt(ctx context.Context, session *liveSession) (more bool) {
	limit, minWait := a.room()
	defer func() { a.left.Store(more) }()
	if a.controlState.draining() || a.clockLimit.check(time.Now()) != nil {
		return false
	}
	if limit == 0 {
		return true
	}
	for full := 0; limit > 0; {
		entries, most := a.adoptable(full, limit)
		if len(entries) == 0 {
			break
		}
		n, err := a.adoptOf(ctx, session, entries, most, minWait)
		if err != nil {
			if ctx.Err() == nil && session.Context().Err() == nil {
				a.log.Warn().Err(err).Msg("adopt waiting runs failed")
			}
			return false
		}
		a.ready.noteLeft(entries, n >= most)
		if n < most {
			break
		}
		// the runs of other jobs must not wait for those of the group that bounded this adoption
		more, full, limit = true, most, limit-n
	}
	return more
}

// adoptOf adopts at most limit waiting runs of the jobs. It returns how many the store returned.
func (a *adopter) adoptOf(ctx context.Context, session *liveSession, entries []*entry, limit int,
	minWait time.Duration) (int, error) {
	wanted := storage.Adoption{Limit: limit, MinWait: minWait, Late: a.ready.lateRoom(),
		Jobs: make([]storage.AdoptedJob, len(entries))}
	for i, e := range entries {
		wanted.Jobs[i] = storage.AdoptedJob{Name: e.Name, Priority: e.EffectivePriority(),
			Threshold: e.lateAfter()}
	}
	bounded, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	known, end := a.active.watch()
	wanted.Known = known
	records, err := a.store.Adopt(bounded, session.ID, wanted)
	begun := end()
	late := 0
	for _, r := range records {
		if begun[r.ID] {
			continue
		}
		// also if the job was removed meanwhile: no other replica would find the run
		i, found := slices.BinarySearchFunc(entries, r.Job, func(e *entry, name string) int {
			return strings.Compare(e.Name, name)
		})
		if !found {
			continue // the store returns runs of wanted.Jobs only
		}
		if a.begin(entries[i], session, r, a.active.track(r.ID)) {
			late++
		}
	}
	if err == nil {
		a.ready.noteLateLeft(late >= wanted.Late)
	}
	return len(records), err
}

// begin queues an adopted run, which is tracked until done is called. It reports whether the run
// needs a slot for late runs.
func (a *adopter) begin(e *entry, session *liveSession, r storage.Record,
	done func()) (paced bool) {
	a.log.Info().Str("job", r.Job).Stringer("run", r.ID).Time("scheduled_at", r.ScheduledAt).
		Str("reason", string(r.Reason)).Msg("waiting run adopted")
	p := pending{
		entry: e, Firing: storage.Firing{Job: r.Job, ScheduledAt: r.ScheduledAt, Key: r.Key,
			KeyActor: r.KeyActor, Recovery: r.Recovery},
		adopted: r.ID, adoptedBy: session.ID, attempt: max(r.Attempt, 1), late: a.late(e, r),
		backfill: r.Backfill,
		since:    a.clock.now(), queued: r.WaitSince,
		blockerText: r.BlockerText(), triggerParams: r.Params, triggerLimit: r.StartBy,
		done: done,
	}
	a.ready.push(p)
	return p.paced()
}

// adoptable returns the jobs whose runs this replica may adopt, by name, and how many of their runs
// it may adopt: at most limit, and at most the least room of a group, because all runs may be of
// that group. It leaves out the jobs of groups with room for at most full runs on this replica:
// another replica may have more.
func (a *adopter) adoptable(full, limit int) (adoptable []*entry, most int) {
	all := a.table.all()
	adoptable, most = make([]*entry, 0, len(all)), limit
	for _, e := range all {
		if e.activeVersion.stale() {
			continue
		}
		if room, limited := a.ready.groupRoom(e); limited {
			if room <= full {
				continue
			}
			most = min(most, room)
		}
		adoptable = append(adoptable, e)
	}
	return adoptable, most
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

// room returns how many runs to adopt: as many as can start at once. If no worker is free and no
// adopted run is queued, it is one, so that adopted runs do not starve behind scheduled firings. A
// run with the reason no_worker is adopted then only after each replica has had its turn: see
// storage.Adoption.MinWait.
func (a *adopter) room() (limit int, minWait time.Duration) {
	queued := a.ready.adoptedLen()
	if limit = max(0, a.workers.free()-queued); limit > 0 || queued > 0 {
		return limit, 0
	}
	return 1, a.turns.longest(a.intervals.adopt, a.heartbeat)
}

// late reports whether a waiting run is a late run, or a run of a backfill. Its reason may have
// changed since its record was written.
func (a *adopter) late(e *entry, r storage.Record) bool {
	if r.Backfill != uuid.Nil {
		return true
	}
	if len(e.Schedule.After()) > 0 { // its scheduled time is that of its dependencies
		return r.Key == "" && r.Recovery == 0 &&
			(r.Reason == reasons.Misfire || r.Reason == reasons.NoWorker ||
				a.clock.now().Sub(r.CreatedAt) > e.MisfireThreshold)
	}
	return r.Key == "" && r.Recovery == 0 && e.overdue(r.ScheduledAt, a.clock.now())
}

// stillOurs reports whether an adopted run belongs to the session. If its session was lost, another
// replica may have it by now.
func (p pending) stillOurs(session *liveSession) bool {
	return p.adopted == uuid.Nil || p.adoptedBy == session.ID
}
