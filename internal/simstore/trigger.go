package simstore

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
)

// Trigger implements jobs.Control.
func (s *Store) Trigger(ctx context.Context, _ jobs.Act, request jobs.TriggerRequest) (jobs.Record, error) {
	if err := s.enter(ctx); err != nil {
		return jobs.Record{}, err
	}
	defer s.mu.Unlock()
	name, key := request.Job, request.Key
	if j := s.jobs[name]; j == nil || j.version == 0 {
		return jobs.Record{}, fmt.Errorf("job %s: %w", name, jobs.ErrNotFound)
	}
	if key == "" {
		key = uuid.NewString()
	}
	now := s.instant()
	f := jobs.Firing{Job: name, Due: now, Key: key}
	for recovery := jobs.MaxRecoveries; recovery >= 0; recovery-- {
		f.Recovery = recovery
		if r := s.firings[firingOf(f)]; r != nil {
			return r.record(), nil
		}
	}
	r := newRun(uuid.New(), f, now)
	r.WaitSince, r.Reason, r.Detail = now, jobs.ReasonTriggered, "triggered by hand"
	s.add(r)
	return r.record(), nil
}
