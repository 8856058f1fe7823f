package rules

import (
	"cmp"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// Run is a run with the facts that its record lacks. Its methods change it to the next state. They
// set its pointers to new values, so a copy of a Run does not change with it.
type Run struct {
	storage.Record
	Session uuid.UUID // the current or last session; Nil for none

	BlockedAt     time.Time // since when it waits for its blocker, if it has one
	ReservedUntil time.Time // of a waiting run; zero if it never had a reservation
	InTurn        bool      // it waits for its position in its group
}

// Whole returns the time in UTC with the precision of a store, which is microseconds.
func Whole(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond).Round(0) }

// NewRun returns a waiting run of the firing that has no session and has not started.
func NewRun(id uuid.UUID, f storage.Firing, now time.Time) Run {
	return Run{Record: storage.Record{
		ID: id, Job: f.Job, ScheduledAt: Whole(f.ScheduledAt), Key: f.Key,
		KeyActor: f.KeyActor, Recovery: f.Recovery,
		State: jobs.Waiting, CreatedAt: now,
	}}
}

// NewMisfired returns the run or the record of a misfire.
func NewMisfired(m storage.Misfired, now time.Time) Run {
	r := NewRun(m.Run, m.Firing, now)
	r.State, r.Reason, r.Detail = m.State, m.Reason, output.PlainText(m.Detail)
	if m.State == jobs.Waiting {
		r.WaitSince = now
	} else {
		r.FinishedAt = &now
	}
	return r
}

// NewTriggered returns the run of a trigger. replica is that of q.Adopter, or "" if this session
// cannot adopt runs.
func NewTriggered(a storage.Action, q storage.TriggerRequest, replica string, now time.Time) Run {
	scheduledAt, since := q.Begin(now)
	r := NewRun(q.RunID(), storage.Firing{Job: q.Job, ScheduledAt: scheduledAt, Key: q.Key,
		KeyActor: a.Actor}, now)
	r.WaitSince, r.StartBy, r.Params = since, q.StartBy(since), q.Params
	r.Reason, r.Detail = reasons.Triggered, a.By("triggered")
	if replica != "" && !since.After(now) {
		r.Session, r.Replica = q.Adopter, replica
	}
	return r
}

// Successor returns the waiting run that recovers a lost one. It returns false if the lost run is
// the last recovery of its firing.
func (r *Run) Successor(reason jobs.Reason, now time.Time) (Run, bool) {
	if r.Recovery >= storage.MaxRecoveries {
		return Run{}, false
	}
	next := NewRun(uuid.New(), storage.Firing{Job: r.Job, ScheduledAt: r.ScheduledAt, Key: r.Key,
		KeyActor: r.KeyActor, Recovery: r.Recovery + 1}, now)
	next.WaitSince, next.Reason, next.Params = now, reason, r.Params
	next.Backfill = r.Backfill
	next.Detail = fmt.Sprintf("recovers run %s, lost on replica %s", r.ID, r.Replica)
	return next, true
}

// Owner returns the run as a holder or waiter.
func (r *Run) Owner() locking.Owner {
	return locking.Owner{Replica: r.Replica, Job: r.Job, Run: r.ID.String()}
}

// Contender returns the run as a contender. token is 0 if it waits.
func (r *Run) Contender(q locking.Request, token jobs.Token) Contender {
	return Contender{Request: q, Token: token, Since: r.Position(r.WaitSince), Run: r.ID,
		Owner: r.Owner(), Backfill: r.Backfill != uuid.Nil}
}

// Of reports whether the run belongs to the session of the replica. A run that was held back
// belongs to each session of its last replica, until a session adopts it.
func (r *Run) Of(session uuid.UUID, replica string) bool {
	return r.Session == session ||
		r.Session == uuid.Nil && r.State == jobs.Waiting && r.Replica == replica
}

// Reserves reports whether the position of the waiting run is reserved for a resource of that kind.
// Positions among the runs of one job, and among runs that wait for a slot of their group, always
// are.
func (r *Run) Reserves(kind locking.Kind, now time.Time) bool {
	return now.Before(r.ReservedUntil) || kind == locking.KindJob ||
		r.InTurn && kind == locking.KindGroup
}

// Since returns the beginning of the run's wait. A run whose wait is not recorded yet has waited
// since the time in its request.
func (r *Run) Since(asked time.Time) time.Time {
	if r.WaitSince.IsZero() {
		return Whole(asked)
	}
	return r.WaitSince
}

// HoldBack leaves the waiting run for another session to adopt. pause covers its job, or is nil.
func (r *Run) HoldBack(pause *storage.Pause) {
	if pause != nil && r.ObeysPauses() {
		r.Reason, r.BlockedBy = reasons.Paused, nil
		r.Detail = fmt.Sprintf("%s is paused by %s", pause.Target, pause.By)
	}
	r.Session = uuid.Nil
}

// Refuse makes the run wait for p, which blocker describes, and returns the reply to its request.
func (r *Run) Refuse(p *Contender, blocker jobs.Blocker, q storage.StartRequest,
	now time.Time) storage.StartResult {
	since := r.Since(q.WaitSince)
	r.setBlocker(&blocker, since, now)
	if p.Resource.Kind() != locking.KindJob {
		r.reserve(q.Reserve, now)
	}
	r.InTurn = p.Resource.Kind() == locking.KindGroup
	r.WaitSince, r.Reason, r.Detail = since, p.Reason(), ""
	reply := blocker
	return storage.StartResult{Outcome: storage.StartBlocked, Blocker: &reply, Reason: r.Reason,
		Backfill: p.Backfill, Reserved: max(0, r.ReservedUntil.Sub(now))}
}

// Grant starts an attempt of the run.
func (r *Run) Grant(token jobs.Token, q storage.StartRequest, now time.Time) storage.StartResult {
	r.Waited = r.waitBefore(q)
	r.endWait(jobs.Running)
	r.Token, r.Attempt, r.Reason, r.Detail, r.BlockedBy = token, q.Attempt, "", "", nil
	r.RetryWaits = storage.EndRetryWait(r.RetryWaits, now)
	if r.StartedAt == nil {
		r.StartedAt = &now
	}
	return storage.StartResult{Outcome: storage.StartGranted, Token: token}
}

// waitBefore returns how the run has waited for the attempt that starts, or nil if it has no
// blocker.
func (r *Run) waitBefore(q storage.StartRequest) *storage.Wait {
	if r.BlockedBy == nil {
		return nil
	}
	since := r.Since(q.WaitSince)
	if q.Attempt > 1 { // before BlockedAt it was in its retry wait
		since = r.BlockedAt
	}
	return &storage.Wait{Blocker: *r.BlockedBy, Since: since}
}

// Note applies a note to the waiting run.
func (r *Run) Note(n storage.Note, now time.Time) {
	since := r.Since(n.WaitSince)
	r.setBlocker(n.Blocker, Whole(n.WaitSince), now)
	r.Reason, r.Detail, r.Error = n.Reason, output.PlainText(n.Detail),
		cmp.Or(output.PlainText(n.Error), r.Error)
	if n.State != jobs.Waiting {
		if n.State == jobs.Skipped && r.StartedAt == nil && r.BlockedBy != nil {
			r.Waited = &storage.Wait{Blocker: *r.BlockedBy, Since: since}
		}
		r.endWait(n.State)
		r.FinishedAt = &now
		return
	}
	if r.WaitSince.IsZero() {
		r.WaitSince = Whole(n.WaitSince)
		if len(n.Requests) > 0 {
			r.reserve(n.Reserve, now)
		}
	}
}

// End ends the waiting run without an attempt.
func (r *Run) End(state jobs.State, reason jobs.Reason, detail string, now time.Time) {
	r.endWait(state)
	r.Reason, r.Detail, r.BlockedBy, r.FinishedAt = reason, detail, nil, &now
}

func (r *Run) endWait(next jobs.State) {
	r.State, r.WaitSince, r.ReservedUntil, r.InTurn = next, time.Time{}, time.Time{}, false
}

// Lose ends the running run because its session is not live.
func (r *Run) Lose(now time.Time) {
	r.State, r.FinishedAt, r.Reason = jobs.Lost, &now, reasons.SessionLost
	r.Detail = "its replica stopped renewing its session"
}

// setBlocker records the blocker of the run, or that it has none. The wait for the first blocker
// counts from since. It must be called before the run gets its new reason.
func (r *Run) setBlocker(b *jobs.Blocker, since, now time.Time) {
	before := r.BlockedBy
	if r.BlockedBy = nil; b == nil {
		return
	}
	blocker := *b
	r.BlockedBy = &blocker
	switch {
	case before != nil && before.Holder.Run == b.Holder.Run:
	case r.Reason == "" && since.Before(now):
		r.BlockedAt = since
	default:
		r.BlockedAt = now
	}
}

// reserve reserves the position of the waiting run by locking.Reserve.
func (r *Run) reserve(d time.Duration, now time.Time) {
	r.ReservedUntil = locking.Reserve(r.ReservedUntil, now, d)
}
