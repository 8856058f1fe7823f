package simstore

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// waitRecord is a finished wait.
type waitRecord struct {
	run                   uuid.UUID
	job, holder, resource string
	state                 jobs.State
	since, until          time.Time
}

// recordWaits records the wait for the former blocker if it ends with the change of a run, and the
// wait for the new blocker if the run ends with it.
func (s *Store) recordWaits(before, after rules.Run, now time.Time) {
	b := after.BlockedBy
	another := b != nil && (before.BlockedBy == nil || before.BlockedBy.Holder.Run != b.Holder.Run)
	ends := before.State == jobs.Waiting && after.State != jobs.Waiting
	if before.BlockedBy != nil && (b == nil || another || ends) {
		next := after.State
		if another {
			next = jobs.Waiting
		}
		s.recordWait(before, before.BlockedBy, next, now)
	}
	if another && ends {
		s.recordWait(after, b, after.State, now)
	}
}

func (s *Store) recordWait(r rules.Run, b *jobs.Blocker, state jobs.State, until time.Time) {
	const maxWaits = 10_000 // a simulated year has millions
	if len(s.waitHistory) >= 2*maxWaits {
		s.waitHistory = slices.Clone(s.waitHistory[maxWaits:])
	}
	s.waitHistory = append(s.waitHistory,
		waitRecord{r.ID, r.Job, b.Holder.Job, b.Resource, state, r.BlockedAt, until})
}

// JobRequests implements storage.Contention.
func (s *Store) JobRequests(ctx context.Context) ([]storage.JobRequests, error) {
	all, err := s.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	var requests []storage.JobRequests
	for _, v := range all {
		named := slices.DeleteFunc(slices.Clone(v.Resources), func(r locking.Request) bool {
			return r.Resource.Kind() == locking.KindJob
		})
		if !v.Removed && len(named) > 0 {
			requests = append(requests, storage.JobRequests{Job: v.Name, Requests: named})
		}
	}
	return requests, nil
}

// RunIntervals implements storage.Contention.
func (s *Store) RunIntervals(ctx context.Context,
	f storage.RunIntervalFilter) ([]storage.RunInterval, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var stretches []storage.RunInterval
	within, before := map[string]int{}, map[string]int{}
	for _, r := range s.sorted() {
		if !slices.Contains(f.Jobs, r.Job) || !r.CreatedAt.Before(f.Until) {
			continue
		}
		if !r.CreatedAt.Before(f.From) {
			if within[r.Job]++; within[r.Job] > min(max(f.Each, 1), storage.MaxRunIntervals) {
				continue
			}
		} else if before[r.Job]++; before[r.Job] > storage.RunIntervalsBefore ||
			r.State.Final() && (r.FinishedAt == nil || r.FinishedAt.Before(f.From)) {
			continue
		}
		stretches = append(stretches, storage.RunInterval{
			Run: r.ID, Job: r.Job, ScheduledAt: r.ScheduledAt, State: r.State, Reason: r.Reason,
			Replica: r.Replica, CreatedAt: r.CreatedAt,
			StartedAt: r.StartedAt, FinishedAt: r.FinishedAt, RetryWaits: r.RetryWaits,
			BlockedBy: r.BlockedBy,
		})
	}
	return stretches, nil
}

// WaitSummaries implements storage.Contention.
func (s *Store) WaitSummaries(ctx context.Context, from,
	until time.Time) ([]storage.WaitSummary, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var parts []storage.WaitSummary
	for _, b := range s.waitHistory {
		if b.until.Before(from) || !b.until.Before(until) {
			continue
		}
		one := storage.WaitSummary{Job: b.job, Holder: b.holder, Resource: b.resource, Times: 1,
			Waited: b.until.Sub(b.since), Longest: b.until.Sub(b.since), Last: b.until}
		if b.state.Final() {
			one.NotRun = 1
		}
		parts = append(parts, one)
	}
	return storage.MergeWaitSummaries(parts), nil
}

// Typical implements storage.Contention.
func (s *Store) Typical(ctx context.Context, names []string) (map[string]storage.Typical, error) {
	outcomes, err := s.Outcomes(ctx, storage.AllOutcomesOf(names), storage.TypicalOf)
	if err != nil {
		return nil, err
	}
	return storage.TypicalOutcomes(outcomes), nil
}
