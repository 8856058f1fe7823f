package simstore

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// OpenFirings implements storage.Dependents.
func (s *Store) OpenFirings(ctx context.Context,
	dependents []storage.Dependent) (map[string]storage.OpenFirings, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	activeDefinitions, scheduledTimes := map[string]storage.ActiveDefinition{},
		map[string][]storage.OpenFiring{}
	for _, f := range dependents {
		for _, name := range append([]string{f.Job}, f.After...) {
			if j := s.jobs[name]; j != nil && j.version != 0 {
				activeDefinitions[name] = storage.ActiveDefinition{Version: j.version,
					CheckedUntil: j.checkedUntil}
			}
		}
		if in := activeDefinitions[f.Job]; in.Version == f.Version && in.Version > 0 &&
			s.pauseOver(f.Job) == nil {
			scheduledTimes[f.Job] = s.openScheduledTimes(f, in.CheckedUntil)
		}
	}
	return storage.OpenFiringsOf(dependents, activeDefinitions, scheduledTimes), nil
}

// openScheduledTimes returns the scheduled times after since for which the dependent has no run,
// and each dependency has a run that has succeeded or may still succeed.
func (s *Store) openScheduledTimes(f storage.Dependent, since time.Time) []storage.OpenFiring {
	open := []storage.OpenFiring{}
	first := s.jobs[f.After[0]]
	if first == nil {
		return open
	}
	from, _ := slices.BinarySearchFunc(first.scheduledTimes, since.Add(time.Microsecond),
		time.Time.Compare)
	for _, scheduledAt := range first.scheduledTimes[from:] {
		if !f.Before.IsZero() && !scheduledAt.Before(f.Before) {
			break
		}
		if s.firings[firing{job: f.Job, scheduledAt: scheduledAt}] != nil {
			continue
		}
		if ready, hope := s.ready(f.After, scheduledAt); hope {
			open = append(open, storage.OpenFiring{ScheduledAt: scheduledAt, Ready: ready})
		}
	}
	return open[max(0, len(open)-storage.MaxBatch):]
}

// ready returns the time at which the last of the jobs succeeded at the scheduled time, or zero if
// one of them has not succeeded. hope reports whether each has succeeded or may still succeed.
func (s *Store) ready(names []string, scheduledAt time.Time) (ready time.Time, hope bool) {
	all := true
	for _, name := range names {
		r := s.latest(name, scheduledAt)
		switch {
		case r == nil || r.State.Final() && r.State != jobs.Succeeded:
			return time.Time{}, false
		case r.State != jobs.Succeeded:
			all = false
		case r.FinishedAt.After(ready):
			ready = *r.FinishedAt
		}
	}
	if !all {
		ready = time.Time{}
	}
	return ready, true
}

// latest returns the last recovery of a scheduled firing, its first run if there is none, or nil.
func (s *Store) latest(name string, scheduledAt time.Time) *run {
	for recovery := storage.MaxRecoveries; recovery >= 0; recovery-- {
		key := firing{job: name, scheduledAt: scheduledAt, recovery: recovery}
		if r := s.firings[key]; r != nil {
			return r
		}
	}
	return nil
}

// AddDependents implements storage.Dependents.
func (s *Store) AddDependents(ctx context.Context, firings []storage.DependentFiring) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	now := s.writeTime()
	for _, f := range firings {
		if s.checked(storage.MisfireCheck{Job: f.Firing.Job, Version: f.Version}) != nil {
			s.misfired([]storage.Misfired{{Firing: f.Firing, Run: f.Run, State: jobs.Waiting,
				Reason: reasons.After, Detail: f.Detail}}, now)
		}
	}
	return nil
}

// PreviousSuccess implements storage.JobProgress.
func (s *Store) PreviousSuccess(ctx context.Context, job string,
	before time.Time) (time.Time, error) {
	if err := s.enter(ctx); err != nil {
		return time.Time{}, err
	}
	defer s.mu.Unlock()
	var last time.Time
	if pruned := s.successes[job]; pruned.Before(before) {
		last = pruned
	}
	for _, r := range s.runs {
		if r.Job == job && r.succeededByItself() && r.ScheduledAt.Before(before) &&
			r.ScheduledAt.After(last) {
			last = r.ScheduledAt
		}
	}
	return last, nil
}

// succeededByItself reports whether the run succeeded with the params of its job.
func (r *run) succeededByItself() bool {
	return r.State == jobs.Succeeded && storage.SameParams(r.Params, nil)
}

// Saved implements storage.JobProgress.
func (s *Store) Saved(ctx context.Context, name string) (json.RawMessage, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return s.saved[name], nil
}
