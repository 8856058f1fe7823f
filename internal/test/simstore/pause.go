package simstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Pause implements storage.Actions.
func (s *Store) Pause(ctx context.Context, a storage.Action,
	target storage.Target) (storage.Pause, error) {
	if err := target.Check(); err != nil {
		return storage.Pause{}, fmt.Errorf("pause: %w", err)
	}
	return action(ctx, s, a, "pause", target.String(), func(d *actionTx) (storage.Pause, error) {
		if target.Kind == storage.TargetJob && !s.isKnown(target.Name) {
			return storage.Pause{}, fmt.Errorf("job %s: %w", target.Name, storage.ErrNotFound)
		}
		if i := s.activePause(target); i >= 0 {
			p := s.control.pauses[i]
			d.detail = map[string]any{"paused_already_by": p.By}
			return p, nil
		}
		d.controlState = true
		p := storage.Pause{ID: uuid.New(), Target: target, At: d.now, By: a.Actor, Reason: a.Reason}
		s.control.pauses = append(s.control.pauses, p)
		return p, nil
	})
}

// Resume implements storage.Actions.
func (s *Store) Resume(ctx context.Context, a storage.Action,
	target storage.Target) (storage.Pause, error) {
	if err := target.Check(); err != nil {
		return storage.Pause{}, fmt.Errorf("resume: %w", err)
	}
	return action(ctx, s, a, "resume", target.String(), func(d *actionTx) (storage.Pause, error) {
		i := s.activePause(target)
		if i < 0 {
			return storage.Pause{}, fmt.Errorf("%s is not paused: %w", target, storage.ErrNotFound)
		}
		p := &s.control.pauses[i]
		d.controlState, d.detail = true, map[string]any{"paused_at": p.At, "paused_by": p.By}
		p.ResumedAt, p.ResumedBy = &d.now, a.Actor
		return *p, nil
	})
}

// activePause returns the index of the target's own active pause, or -1.
func (s *Store) activePause(target storage.Target) int {
	return slices.IndexFunc(s.control.pauses, func(p storage.Pause) bool {
		return p.Target == target && p.ResumedAt == nil
	})
}

// isKnown reports whether the job exists or was added.
func (s *Store) isKnown(name string) bool {
	spec, j := s.control.specs[name], s.jobs[name]
	return spec != nil && !spec.Removed || j != nil && j.version > 0
}

// Pauses implements storage.Control.
func (s *Store) Pauses(ctx context.Context, name, group string, from,
	until time.Time) ([]storage.Pause, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var found []storage.Pause
	for _, p := range s.control.pauses {
		if p.Covers(name, group) && !p.At.After(until) &&
			(p.ResumedAt == nil || p.ResumedAt.After(from)) {
			found = append(found, p)
		}
	}
	return found, nil
}

// AllPauses returns all former and active pauses, the oldest first.
func (s *Store) AllPauses() []storage.Pause {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.control.pauses)
}

// pauseOver returns an active pause that covers the job, its own first, or nil.
func (s *Store) pauseOver(name string) *storage.Pause {
	if len(s.control.pauses) == 0 {
		return nil
	}
	return rules.PauseOver(s.control.pauses, name, s.groupOf(name))
}

func (s *Store) groupOf(name string) string {
	if j := s.jobs[name]; j != nil && j.version != 0 {
		return j.last().Group
	}
	var text struct {
		Group string `json:"group"`
	}
	if spec := s.control.specs[name]; spec != nil && json.Unmarshal(spec.Text, &text) == nil {
		return text.Group
	}
	return ""
}

// Drain implements storage.Actions.
func (s *Store) Drain(ctx context.Context, a storage.Action, id uuid.UUID, drain bool) error {
	verb := "drain"
	if !drain {
		verb = "undrain"
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	l, live := s.liveSession(id)
	s.mu.Unlock()
	if !live {
		return fmt.Errorf("%s: live session %s: %w", verb, id, storage.ErrNotFound)
	}
	_, err := action(ctx, s, a, verb, "replica "+l.Replica, func(d *actionTx) (struct{}, error) {
		d.controlState, d.detail = true, map[string]any{"session": id}
		if l.draining != drain && len(l.drains) < 2*storage.MaxDrains {
			l.drains = append(l.drains, s.now())
		}
		l.draining = drain
		return struct{}{}, nil
	})
	return err
}

// lost reports whether the session expired and was swept.
func (l *session) lost() bool { return l.ended != nil && !l.stopped }

// RemoveReplica implements storage.Actions.
func (s *Store) RemoveReplica(ctx context.Context, a storage.Action, id uuid.UUID) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	l := s.sessions[id]
	isLost := l != nil && l.lost()
	s.mu.Unlock()
	unknown := fmt.Errorf("remove replica: lost session %s: %w", id, storage.ErrNotFound)
	if !isLost {
		return unknown
	}
	_, err := action(ctx, s, a, "remove_replica", "replica "+l.Replica,
		func(d *actionTx) (struct{}, error) {
			d.detail = map[string]any{"session": id}
			err := unknown
			for _, other := range s.sessions {
				if other.Replica == l.Replica && other.lost() && !other.removed {
					other.removed, err = true, nil
				}
			}
			return struct{}{}, err
		})
	return err
}
