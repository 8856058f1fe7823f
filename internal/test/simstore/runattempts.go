package simstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// addAttempt adds the current attempt of the run, which another one follows.
func (r *run) addAttempt(q storage.FinishRequest, now time.Time) {
	a, _ := r.LastAttempt()
	a.State, a.Reason = q.Attempt.EndState(), q.Attempt.Reason
	a.Detail, a.Error = output.PlainText(q.Attempt.Detail), output.PlainText(q.Error)
	a.Output, a.FinishedAt = output.PlainText(q.Output), &now
	r.attempts = append(r.attempts, a)
	r.attempts = r.attempts[max(0, len(r.attempts)-storage.MaxRunAttempts):]
	r.output = ""
}

// RunAttempts implements storage.RunAttempts.
func (s *Store) RunAttempts(ctx context.Context, id uuid.UUID) ([]storage.RunAttempt, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	r := s.runs[id]
	if r == nil {
		return nil, nil
	}
	attempts := slices.Clone(r.attempts)
	for i := range attempts {
		attempts[i].Output = ""
	}
	return attempts, nil
}

// RunAttempt implements storage.RunAttempts.
func (s *Store) RunAttempt(ctx context.Context, id uuid.UUID,
	attempt int) (storage.RunAttempt, error) {
	if err := s.enter(ctx); err != nil {
		return storage.RunAttempt{}, err
	}
	defer s.mu.Unlock()
	if r := s.runs[id]; r != nil {
		for _, a := range r.attempts {
			if a.Attempt == attempt {
				return a, nil
			}
		}
	}
	return storage.RunAttempt{}, fmt.Errorf("attempt %d of run %s: %w", attempt, id,
		storage.ErrNotFound)
}
