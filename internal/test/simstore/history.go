package simstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Locks implements storage.History.
func (s *Store) Locks(ctx context.Context) ([]storage.LockView, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var locks []storage.LockView
	for _, c := range s.claims {
		for _, q := range c.held {
			locks = append(locks, storage.LockView{
				Resource: q.Resource, Mode: q.Mode, Slots: q.Slots, Holder: c.run.Owner(),
				Token: c.token, Since: c.granted, Expires: c.session.expires,
			})
		}
	}
	slices.SortFunc(locks, func(a, b storage.LockView) int {
		return cmp.Or(strings.Compare(a.Resource.Key(), b.Resource.Key()),
			cmp.Compare(a.Token, b.Token))
	})
	return locks, nil
}

// Jobs implements storage.History.
func (s *Store) Jobs(ctx context.Context) ([]storage.JobView, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	last := map[string]*run{}
	for _, r := range s.runs {
		if r.FinishedAt != nil && (last[r.Job] == nil ||
			younger(r.Record, last[r.Job].Record) < 0) {
			last[r.Job] = r
		}
	}
	var views []storage.JobView
	for _, name := range slices.Sorted(maps.Keys(s.jobs)) {
		j := s.jobs[name]
		if j.version == 0 {
			continue
		}
		v := storage.JobView{Definition: j.last(), Version: max(j.version, -j.version),
			UpdatedAt: j.updatedAt, Removed: j.version < 0}
		if j.absent() {
			v.AbsentSince = &j.absence.From
		}
		if r := last[name]; r != nil {
			record := r.Record
			v.Last = &record
		}
		views = append(views, v)
	}
	return views, nil
}

// younger is the order of Runs.
func younger(a, b storage.Record) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), bytes.Compare(b.ID[:], a.ID[:]))
}

// Runs implements storage.History.
func (s *Store) Runs(ctx context.Context, f storage.RunFilter) ([]storage.Record, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var found []storage.Record
	for _, r := range s.runs {
		if matches(f, r) && (f.Later == nil || r.StartsLater(s.now()) == *f.Later) &&
			s.selects(f, r.Job) {
			found = append(found, r.Record)
		}
	}
	slices.SortFunc(found, younger)
	limit := min(storage.PageSize(f.Limit), len(found))
	if f.After != nil && f.Before == nil {
		return found[len(found)-limit:], nil
	}
	return found[:limit], nil
}

func matches(f storage.RunFilter, r *run) bool {
	switch {
	case f.Job != "" && r.Job != f.Job, f.Replica != "" && r.Replica != f.Replica,
		len(f.States) > 0 && !slices.Contains(f.States, r.State),
		f.Backfill != uuid.Nil && r.Backfill != f.Backfill,
		!strings.Contains(strings.ToLower(r.Error), strings.ToLower(f.Error)),
		f.Reason != "" && r.Reason != f.Reason, !f.From.IsZero() && r.CreatedAt.Before(f.From),
		!f.Until.IsZero() && !r.CreatedAt.Before(f.Until),
		f.Before != nil && younger(cursorRecord(f.Before), r.Record) >= 0,
		f.After != nil && younger(r.Record, cursorRecord(f.After)) >= 0:
		return false
	}
	return true
}

func cursorRecord(c *storage.RunCursor) storage.Record {
	return storage.Record{CreatedAt: c.CreatedAt, ID: c.ID}
}

// Run implements storage.History.
func (s *Store) Run(ctx context.Context, id uuid.UUID) (storage.Record, error) {
	if err := s.enter(ctx); err != nil {
		return storage.Record{}, err
	}
	defer s.mu.Unlock()
	r := s.runs[id]
	if r == nil {
		return storage.Record{}, fmt.Errorf("run %s: %w", id, storage.ErrNotFound)
	}
	record := r.Record
	record.Output, record.Result = r.output, r.result
	return record, nil
}

// Firing implements storage.History.
func (s *Store) Firing(ctx context.Context, name string,
	scheduledAt time.Time) (storage.FiringView, error) {
	if err := s.enter(ctx); err != nil {
		return storage.FiringView{}, err
	}
	defer s.mu.Unlock()
	j := s.jobs[name]
	if j == nil || j.version == 0 {
		return storage.FiringView{}, fmt.Errorf("job %s: %w", name, storage.ErrNotFound)
	}
	d := j.last()
	v := storage.FiringView{
		Now: s.writeTime(), Version: max(j.version, -j.version), Removed: j.version < 0,
		Hash: d.Hash, Schedule: d.Schedule, Zone: d.Zone, Group: d.Group,
		UpdatedAt: j.updatedAt, CheckedUntil: j.checkedUntil,
	}
	for recovery := range storage.MaxRecoveries + 1 {
		key := firing{job: name, scheduledAt: scheduledAt.UTC(), recovery: recovery}
		if r := s.firings[key]; r != nil {
			v.Runs = append(v.Runs, r.Record)
		}
	}
	for _, r := range slices.Backward(s.sorted()) {
		if r.Job == name && r.Key != "" && r.ScheduledAt.Equal(scheduledAt) &&
			len(v.Manual) < storage.MaxManual {
			v.Manual = append(v.Manual, r)
		}
	}
	return v, nil
}

// Replicas implements storage.History.
func (s *Store) Replicas(ctx context.Context) ([]storage.ReplicaView, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	since := s.now().Add(-storage.SessionsKept)
	return s.replicas(func(l *session) bool {
		return l.ended == nil || !l.removed && l.ended.After(since)
	}), nil
}

// open returns the views of the open sessions. The caller has the lock.
func (s *Store) open() []storage.ReplicaView {
	views := s.replicas(func(l *session) bool { return l.ended == nil })
	for i := range views {
		views[i].Running = 0
	}
	return views
}

// replicas returns the views of sessions. The caller has the lock.
func (s *Store) replicas(includes func(*session) bool) []storage.ReplicaView {
	included := make([]*session, 0, len(s.sessions))
	for _, l := range s.sessions {
		if includes(l) {
			included = append(included, l)
		}
	}
	slices.SortFunc(included, func(a, b *session) int {
		return cmp.Or(strings.Compare(a.Replica, b.Replica), a.started.Compare(b.started),
			bytes.Compare(a.ID[:], b.ID[:]))
	})
	views := make([]storage.ReplicaView, 0, len(included))
	for _, l := range included {
		views = append(views, storage.ReplicaView{
			Session: l.ID, Name: l.Replica, Version: l.Version, StartedAt: l.started,
			LastHeartbeat: l.heartbeat, ExpiresAt: l.expires, EndedAt: l.ended, Stopped: l.stopped,
			Running: len(l.claims), LockServers: l.LockServers, ConfigHash: l.Table,
			Draining:    l.draining,
			ClockOffset: l.replicaStatus.OffsetMilliseconds(), Workers: l.replicaStatus.Workers,
			Busy: l.replicaStatus.Busy, NotReady: l.replicaStatus.NotReady,
			Stopping:  l.replicaStatus.Stopping && l.ended == nil,
			Databases: l.replicaStatus.Databases,
		})
	}
	return views
}

// replicaSession returns the times of the session.
func (l *session) replicaSession() storage.ReplicaSession {
	return storage.ReplicaSession{Session: l.ID, Name: l.Replica, Version: l.Version,
		StartedAt: l.started, ExpiresAt: l.expires, EndedAt: l.ended, Stopped: l.stopped,
		Drains: storage.NewDrains(l.drains)}
}

// ReplicaSessions implements storage.History.
func (s *Store) ReplicaSessions(ctx context.Context, since time.Time,
	n int) ([]storage.ReplicaSession, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	found := slices.Clone(s.past)
	for _, l := range s.sessions {
		if l.ended == nil || !l.removed {
			found = append(found, l.replicaSession())
		}
	}
	found = slices.DeleteFunc(found, func(r storage.ReplicaSession) bool {
		return r.EndedAt != nil && r.EndedAt.Before(since)
	})
	slices.SortFunc(found, func(a, b storage.ReplicaSession) int {
		return b.StartedAt.Compare(a.StartedAt)
	})
	found = found[:min(n, len(found))]
	slices.SortFunc(found, func(a, b storage.ReplicaSession) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), a.StartedAt.Compare(b.StartedAt),
			bytes.Compare(a.Session[:], b.Session[:]))
	})
	return found, nil
}
