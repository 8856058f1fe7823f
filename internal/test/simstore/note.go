package simstore

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// Note implements jobs.Firings.
func (s *Store) Note(ctx context.Context, session uuid.UUID, notes []storage.Note) ([]bool, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	l, live := s.living(session)
	if !live {
		return nil, fmt.Errorf("note: %w", storage.ErrSessionLost)
	}
	now := s.writeTime()
	stands := make([]bool, len(notes))
	for i, n := range notes {
		stands[i] = s.note(l, n, now)
	}
	return stands, nil
}

// note reports whether the note takes effect.
func (s *Store) note(l *session, n storage.Note, now time.Time) bool {
	if known := s.runs[n.Run]; known != nil {
		mine := known.session == l.ID
		if mine && known.State == jobs.Waiting {
			s.write(known, n, now)
			return true
		}
		return mine && known.State == n.State // resent, or for the run of another session
	}
	if s.firings[firingOf(n.Firing)] != nil || s.stale(n.Firing.Job, n.Version) {
		return false
	}
	r := newRun(n.Run, n.Firing, now)
	r.session, r.Replica = l.ID, l.Replica
	s.add(r)
	s.write(r, n, now)
	return true
}

func (s *Store) write(r *run, n storage.Note, now time.Time) {
	s.unblock(r, n.Blocker, n.State, n.WaitSince, now)
	r.Reason, r.Detail, r.Error = n.Reason, output.PlainText(n.Detail),
		cmp.Or(output.PlainText(n.Error), r.Error)
	if n.State != jobs.Waiting {
		s.settled(r, n.State)
		r.FinishedAt = &now
		return
	}
	r.wants = n.Requests
	if r.WaitSince.IsZero() {
		r.WaitSince = whole(n.WaitSince)
		if len(n.Requests) > 0 {
			r.reservedUntil = locking.Reserve(time.Time{}, now, n.Reserve)
		}
	}
}
