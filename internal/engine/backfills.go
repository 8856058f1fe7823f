package engine

import (
	"context"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// maxBackfillStep is the most scheduled times of one step of a backfill.
const maxBackfillStep = 100

// backfillStore advances backfills.
type backfillStore interface {
	OpenBackfills(ctx context.Context) ([]storage.OpenBackfill, error)
	AdvanceBackfill(ctx context.Context, step storage.BackfillStep) (storage.Backfill, error)
}

// backfiller adds the runs of backfills. Every replica advances every open backfill, and the store
// lets one of them add a run.
type backfiller struct {
	store backfillStore
	table *cronTable
	log   zerolog.Logger
}

// advance counts the ended runs of the open backfills and adds the next ones.
func (b *backfiller) advance(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	open, err := b.store.OpenBackfills(bounded)
	if err != nil {
		if ctx.Err() == nil {
			b.log.Warn().Err(err).Msg("read open backfills failed")
		}
		return
	}
	for _, o := range open {
		if !isDue(o) {
			continue
		}
		if err := b.advanceOne(bounded, o.Backfill); err != nil && ctx.Err() == nil {
			b.log.Warn().Err(err).Stringer("backfill", o.ID).Str("job", o.Job).
				Msg("advance backfill failed, retrying")
		}
	}
}

// isDue reports whether the backfill has ended runs to count, or may have more runs.
func isDue(o storage.OpenBackfill) bool {
	return o.Ended > 0 || o.State == storage.BackfillActive && o.Unfinished() < o.Parallel
}

// advanceOne advances the backfill until it cannot have more runs for now.
func (b *backfiller) advanceOne(ctx context.Context, now storage.Backfill) error {
	for {
		step := b.step(now)
		after, err := b.store.AdvanceBackfill(ctx, step)
		if err != nil {
			return err
		}
		b.logChange(now, after)
		n := len(step.Times)
		if step.Last || n == 0 || after.State != storage.BackfillActive ||
			after.HandledUntil.Before(step.Times[n-1].ScheduledAt) {
			return nil
		}
		now = after
	}
}

// step returns the next step of the backfill. It has scheduled times only if this replica fires the
// job.
func (b *backfiller) step(now storage.Backfill) storage.BackfillStep {
	step := storage.BackfillStep{Backfill: now.ID, After: now.HandledUntil}
	e := b.table.get(now.Job)
	if e == nil || e.activeVersion.stale() {
		return step
	}
	step.Version = e.activeVersion.own()
	for at := now.HandledUntil; len(step.Times) < maxBackfillStep; {
		if at = e.Schedule.Next(at); at.IsZero() || at.After(now.To) {
			step.Last = true
			break
		}
		step.Times = append(step.Times, storage.BackfillTime{ScheduledAt: at,
			Run: uuid.Must(uuid.NewV7())})
	}
	return step
}

// logChange logs the end of a backfill. Several replicas may log the same end.
func (b *backfiller) logChange(before, after storage.Backfill) {
	if before.State != storage.BackfillActive || after.State == storage.BackfillActive {
		return
	}
	b.log.Info().Stringer("backfill", after.ID).Str("job", after.Job).
		Str("state", string(after.State)).Str("detail", after.Detail).
		Int("succeeded", after.Succeeded).Int("unsuccessful", after.Unsuccessful).
		Int("left_out", after.LeftOut).Msg("backfill ended")
}

// runOfBackfill reports whether a backfill added the run. Such a run takes a slot of the late runs.
func (p pending) runOfBackfill() bool { return p.backfill != uuid.Nil }
