package simstore

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Note implements storage.Firings.
func (s *Store) Note(ctx context.Context, session uuid.UUID, notes []storage.Note) ([]bool, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	l, live := s.liveSession(session)
	if !live {
		return nil, fmt.Errorf("note: %w", storage.ErrSessionLost)
	}
	now := s.writeTime()
	accepted := make([]bool, len(notes))
	for i, n := range notes {
		accepted[i] = s.note(l, n, now)
	}
	return accepted, nil
}

// note reports whether the note takes effect.
func (s *Store) note(l *session, n storage.Note, now time.Time) bool {
	known := s.runs[n.Run]
	facts := rules.Start{Session: l.ID, Replica: l.Replica,
		Stale: s.stale(n.Firing.Job, n.Version), Taken: s.firings[firingOf(n.Firing)] != nil}
	if known != nil {
		facts.Known = &known.Run
	}
	accepted, apply := facts.Noted(n)
	if !apply {
		return accepted
	}
	if known == nil {
		fresh := rules.NewRun(n.Run, n.Firing, now)
		fresh.Session, fresh.Replica = l.ID, l.Replica
		known = s.add(fresh)
	}
	next := known.Run
	next.Session = l.ID // a run that was held back has none
	next.Note(n, now)
	known.wants = n.Requests
	s.update(known, next, now)
	return accepted
}
