package simstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// AddBackfill implements storage.Actions.
func (s *Store) AddBackfill(ctx context.Context, a storage.Action,
	r storage.BackfillRequest) (storage.Backfill, error) {
	return action(ctx, s, r.Asking(a), "backfill", "job "+r.Job,
		func(d *actionTx) (storage.Backfill, error) {
			j := s.jobs[r.Job]
			if j == nil || j.version <= 0 {
				return storage.Backfill{}, fmt.Errorf("active definition of job %s: %w", r.Job,
					storage.ErrNotFound)
			}
			if err := r.Fits(j.last().ScheduleKey(), j.last().MayOverlap, d.now); err != nil {
				return storage.Backfill{}, err
			}
			for _, other := range s.backfills {
				if other.Job == r.Job && other.State == storage.BackfillActive {
					return storage.Backfill{}, other.Another()
				}
			}
			b := rules.NewBackfill(a, r, d.now)
			s.backfills[b.ID], s.unfinished[b.ID] = &b, map[string]bool{}
			d.detail = b.Audited()
			return b.Backfill, nil
		})
}

// CancelBackfill implements storage.Actions.
func (s *Store) CancelBackfill(ctx context.Context, a storage.Action,
	id uuid.UUID) (storage.Backfill, error) {
	return action(ctx, s, a, "cancel_backfill", "backfill "+id.String(),
		func(d *actionTx) (storage.Backfill, error) {
			b := s.backfills[id]
			switch {
			case b == nil:
				return storage.Backfill{}, fmt.Errorf("backfill %s: %w", id, storage.ErrNotFound)
			case b.State != storage.BackfillActive:
				return storage.Backfill{}, b.HasEnded()
			}
			cancelled := 0
			for _, r := range s.waiting {
				if r.Backfill == id {
					s.cancel(r, d, a.By("its backfill was cancelled"))
					cancelled++
				}
			}
			b.End(storage.BackfillCancelled, a.By("cancelled"), d.now)
			d.detail = map[string]any{"job": b.Job, "cancelled_runs": cancelled}
			return b.Backfill, nil
		})
}

// Backfills implements storage.BackfillHistory.
func (s *Store) Backfills(ctx context.Context,
	f storage.BackfillFilter) ([]storage.Backfill, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var found []storage.Backfill
	for _, b := range s.backfills {
		if matchesBackfill(f, b.Backfill) {
			found = append(found, b.Backfill)
		}
	}
	slices.SortFunc(found, youngerBackfill)
	limit := min(storage.PageSize(f.Limit), len(found))
	if f.After != nil && f.Before == nil {
		return found[len(found)-limit:], nil
	}
	return found[:limit], nil
}

// youngerBackfill is the order of Backfills.
func youngerBackfill(a, b storage.Backfill) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), bytes.Compare(b.ID[:], a.ID[:]))
}

func matchesBackfill(f storage.BackfillFilter, b storage.Backfill) bool {
	at := func(c *storage.RunCursor) storage.Backfill {
		return storage.Backfill{CreatedAt: c.CreatedAt, ID: c.ID}
	}
	return (f.Job == "" || b.Job == f.Job) && (f.State == "" || b.State == f.State) &&
		(!f.Ended || b.State != storage.BackfillActive) &&
		(f.Before == nil || youngerBackfill(at(f.Before), b) < 0) &&
		(f.After == nil || youngerBackfill(b, at(f.After)) < 0)
}

// Backfill implements storage.BackfillHistory.
func (s *Store) Backfill(ctx context.Context, id uuid.UUID) (storage.Backfill, error) {
	if err := s.enter(ctx); err != nil {
		return storage.Backfill{}, err
	}
	defer s.mu.Unlock()
	b := s.backfills[id]
	if b == nil {
		return storage.Backfill{}, fmt.Errorf("backfill %s: %w", id, storage.ErrNotFound)
	}
	return b.Backfill, nil
}

// BackfillTaken implements storage.BackfillHistory.
func (s *Store) BackfillTaken(ctx context.Context, job string, from,
	to time.Time) ([]storage.Outcome, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var taken []storage.Outcome
	for _, r := range s.runs {
		if r.Job == job && !r.ScheduledAt.Before(from) && !r.ScheduledAt.After(to) &&
			storage.TakesBackfillTime(r.Record) {
			taken = append(taken, storage.Outcome{Run: r.ID, ScheduledAt: r.ScheduledAt,
				State: r.State, Reason: r.Reason, StartedAt: r.StartedAt,
				FinishedAt: r.FinishedAt})
		}
	}
	slices.SortFunc(taken, func(a, b storage.Outcome) int {
		return cmp.Or(a.ScheduledAt.Compare(b.ScheduledAt), bytes.Compare(a.Run[:], b.Run[:]))
	})
	return taken[:min(len(taken), 2*storage.MaxBackfillTimes)], nil
}

// OpenBackfills implements storage.Backfills.
func (s *Store) OpenBackfills(ctx context.Context) ([]storage.OpenBackfill, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var open []storage.OpenBackfill
	for id, b := range s.backfills {
		if b.State == storage.BackfillActive || len(s.unfinished[id]) > 0 {
			open = append(open, storage.OpenBackfill{Backfill: b.Backfill,
				Ended: len(s.endedOf(b))})
		}
	}
	slices.SortFunc(open, func(a, b storage.OpenBackfill) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return open, nil
}

// endedOf returns the final states of the backfill's runs that are not counted, by key.
func (s *Store) endedOf(b *rules.Backfill) map[string]jobs.State {
	ended := map[string]jobs.State{}
	for key := range s.unfinished[b.ID] {
		state := jobs.Lost
		for n := storage.MaxRecoveries; n >= 0; n-- {
			if r := s.firings[firing{job: b.Job, key: key, recovery: n}]; r != nil {
				state = r.State
				break
			}
		}
		if state.Final() {
			ended[key] = state
		}
	}
	return ended
}

// AdvanceBackfill implements storage.Backfills.
func (s *Store) AdvanceBackfill(ctx context.Context,
	step storage.BackfillStep) (storage.Backfill, error) {
	if err := s.enter(ctx); err != nil {
		return storage.Backfill{}, err
	}
	defer s.mu.Unlock()
	b := s.backfills[step.Backfill]
	if b == nil {
		return storage.Backfill{}, fmt.Errorf("backfill %s: %w", step.Backfill,
			storage.ErrNotFound)
	}
	now := s.writeTime()
	for key, state := range s.endedOf(b) {
		b.Count(state)
		delete(s.unfinished[b.ID], key)
	}
	j := s.jobs[b.Job]
	b.Stop(j.last().ScheduleKey(), j.version < 0, s.left(j), now)
	if step.Version > 0 && j.version == step.Version && s.pauseOver(b.Job) == nil {
		added, err := b.Handle(step, now, func(at time.Time) (taken, decided bool, err error) {
			taken, decided = s.backfillTime(j, b.Job, at)
			return taken, decided, nil
		})
		if err != nil {
			return storage.Backfill{}, err
		}
		for _, r := range added {
			s.add(r)
			s.unfinished[b.ID][r.Key] = true
		}
	}
	b.Complete(now)
	return b.Backfill, nil
}

// backfillTime reports whether a run takes the scheduled time of the job, and whether the misfire
// policy has decided on it.
func (s *Store) backfillTime(j *job, name string, at time.Time) (taken, decided bool) {
	at = rules.Whole(at)
	for _, r := range s.runs {
		if r.Job == name && r.ScheduledAt.Equal(at) {
			taken = taken || storage.TakesBackfillTime(r.Record)
			decided = decided || r.Key == ""
		}
	}
	return taken, decided || !at.After(j.checkedUntil)
}
