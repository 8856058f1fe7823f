package simstore

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// countEnded counts the run if it has ended.
func (s *Store) countEnded(r *run) {
	if !r.State.Final() {
		return
	}
	t := storage.Tally{Quarter: storage.QuarterOf(r.CreatedAt), State: r.State,
		Delay: storage.NotStarted}
	if r.StartedAt != nil {
		due := r.ScheduledAt
		if r.Backfill != uuid.Nil {
			due = r.CreatedAt
		}
		t.Delay = storage.DelayBucket(r.StartedAt.Sub(due))
	}
	s.tallies[t]++
}

// Histogram implements storage.Histograms.
func (s *Store) Histogram(ctx context.Context, from, until time.Time,
	part time.Duration) ([]storage.Quarter, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var parts []storage.Tally
	from, until = storage.HistogramStart(from), storage.HistogramEnd(from, until)
	for t, runs := range s.tallies {
		if !t.Quarter.Before(from) && t.Quarter.Before(until) {
			t.Quarter = from.Add(t.Quarter.Sub(from) / part * part)
			t.Runs = runs
			parts = append(parts, t)
		}
	}
	return storage.MergeTallies(parts), nil
}

// EndedRuns implements storage.Histograms.
func (s *Store) EndedRuns(ctx context.Context, exactly int) (storage.EndedRuns, error) {
	if err := s.enter(ctx); err != nil {
		return storage.EndedRuns{}, err
	}
	defer s.mu.Unlock()
	byState := make(map[jobs.State]int)
	if len(s.runs) <= exactly {
		for _, r := range s.runs {
			byState[r.State]++
		}
		return storage.NewEndedRuns(byState, false), nil
	}
	for t, runs := range s.tallies {
		byState[t.State] += runs
	}
	return storage.NewEndedRuns(byState, true), nil
}
