package rules

import (
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// behindAll moves the position of a run of a backfill behind all waiters that are not of one.
const behindAll = 100 * 365 * 24 * time.Hour

// Backfill is a backfill with the facts that only stores need. Its methods change it to the next
// state.
type Backfill struct {
	storage.Backfill
	ScheduleKey string // of the definition that gave its scheduled times
}

// NewBackfill returns the backfill of a request.
func NewBackfill(a storage.Action, r storage.BackfillRequest, now time.Time) Backfill {
	return Backfill{Backfill: r.New(a, now), ScheduleKey: r.ScheduleKey}
}

// Count counts the end of its run for one scheduled time.
func (b *Backfill) Count(state jobs.State) {
	if state == jobs.Succeeded {
		b.Succeeded++
	} else {
		b.Unsuccessful++
	}
}

// Stop ends an active backfill if its job was removed, has another schedule key, or is gone. Gone
// means that the job was absent for longer than storage.MaxAbsence.
func (b *Backfill) Stop(scheduleKey string, removed, gone bool, now time.Time) {
	switch {
	case b.State != storage.BackfillActive:
	case removed:
		b.End(storage.BackfillStopped, storage.BackfillJobRemoved, now)
	case scheduleKey != b.ScheduleKey:
		b.End(storage.BackfillStopped, storage.BackfillScheduleChanged, now)
	case gone:
		b.End(storage.BackfillStopped, storage.JobGoneDetail, now)
	}
}

// Handle handles the times of the step, and returns the runs to add. look reports whether a run
// takes the scheduled time, and whether the misfire policy has decided on it.
func (b *Backfill) Handle(step storage.BackfillStep, now time.Time,
	look func(scheduledAt time.Time) (taken, decided bool, err error)) ([]Run, error) {
	if b.State != storage.BackfillActive || !b.HandledUntil.Equal(step.After) {
		return nil, nil
	}
	var added []Run
	for _, t := range step.Times {
		taken, decided, err := look(t.ScheduledAt)
		switch {
		case err != nil:
			return nil, err
		case taken:
			b.LeftOut++
		case !decided || b.Unfinished() >= b.Parallel:
			return added, nil
		default:
			b.Runs++
			added = append(added, b.run(t, now))
		}
		b.HandledUntil = Whole(t.ScheduledAt)
	}
	if step.Last {
		b.HandledUntil = b.To
	}
	return added, nil
}

// Complete ends an active backfill that has nothing more to do.
func (b *Backfill) Complete(now time.Time) {
	if b.State == storage.BackfillActive && !b.HandledUntil.Before(b.To) && b.Unfinished() == 0 {
		b.End(storage.BackfillCompleted, "", now)
	}
}

// End ends the backfill.
func (b *Backfill) End(state storage.BackfillState, detail string, now time.Time) {
	b.State, b.Detail, b.EndedAt = state, detail, &now
}

// run returns the waiting run of a scheduled time.
func (b *Backfill) run(t storage.BackfillTime, now time.Time) Run {
	r := NewRun(t.Run, storage.Firing{Job: b.Job, ScheduledAt: t.ScheduledAt,
		Key: b.Key(t.ScheduledAt)}, now)
	r.Backfill, r.WaitSince, r.Reason, r.Detail = b.ID, now, reasons.Backfill, b.By()
	return r
}

// ObeysPauses reports whether a pause prevents the first start of the run.
func (r *Run) ObeysPauses() bool { return r.Key == "" || r.Backfill != uuid.Nil }

// Position returns the time that orders the run among waiters. The run has waited since the given
// time.
func (r *Run) Position(since time.Time) time.Time {
	return Position(since, r.Backfill != uuid.Nil)
}

// Position returns the time that orders a run among waiters. A run of a backfill is behind all
// others.
func Position(since time.Time, backfill bool) time.Time {
	if backfill {
		return since.Add(behindAll)
	}
	return since
}
