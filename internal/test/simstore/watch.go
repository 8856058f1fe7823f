package simstore

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Watch implements storage.Watching.
func (s *Store) Watch(ctx context.Context, run uuid.UUID) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if r := s.runs[run]; r != nil && r.State == jobs.Running {
		r.watched = time.Now().Add(storage.WatchLasts)
	}
	return nil
}

// SaveOutput implements storage.Watching.
func (s *Store) SaveOutput(ctx context.Context, outputs []storage.Output) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	for _, o := range outputs {
		if c := s.claims[o.Token]; c != nil {
			c.run.output = output.PlainText(o.Text)
		}
	}
	return nil
}
