package simstore

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// job is a job with all its definitions, by version from 1.
type job struct {
	definitions    []storage.Definition
	version        int64 // active; 0 for none, negative if the job was removed
	checkedUntil   time.Time
	updatedAt      time.Time
	absence        storage.Span // the last interval in which no session had it
	scheduledTimes []time.Time  // those with a run or a record, sorted
	// when a check first found that no session has an inactive version
	idle map[int64]time.Time
}

// last is the active definition, or the one that was active last.
func (j *job) last() storage.Definition { return j.definitions[max(j.version, -j.version)-1] }

func (j *job) versionOf(hash string) int64 {
	for i, d := range j.definitions {
		if d.Hash == hash {
			return int64(i + 1)
		}
	}
	return 0
}

// Change is a change of the active definition of a job.
type Change struct {
	At         time.Time
	Definition storage.Definition
	Version    int64
	// Checked is the time up to which the scheduled times of the former definition were decided.
	// Its scheduled times from Checked to Counted count only if they have a run. The scheduled
	// times of the new definition count from Counted on.
	Checked, Counted time.Time
	Removed          bool // the job was removed and has no active definition from then on
}

// Changes returns every change of an active definition, the oldest first.
func (s *Store) Changes() []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Change(nil), s.changes...)
}

// Register implements storage.Sessions.
func (s *Store) Register(ctx context.Context, id uuid.UUID,
	definitions []storage.Definition) (map[string]int64, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	l, live := s.liveSession(id)
	if !live {
		return nil, fmt.Errorf("registration of jobs: %w", storage.ErrSessionLost)
	}
	s.settle()
	versions := make(map[string]int64, len(definitions))
	for _, d := range definitions {
		versions[d.Name] = s.define(d)
		if spec := s.control.specs[d.Name]; d.Source != storage.FromStore || spec == nil ||
			!spec.Removed {
			l.carried[d.Name] = versions[d.Name]
			if _, took := l.took[d.Name]; !took {
				l.took[d.Name] = s.now()
			}
		}
	}
	s.enforce(versions)
	return versions, nil
}

// define returns the definition's version, a new one if the definition is new.
func (s *Store) define(d storage.Definition) int64 {
	j := s.jobs[d.Name]
	if j == nil {
		j = &job{}
		s.jobs[d.Name] = j
	}
	d.Priority, d.Source = cmp.Or(d.Priority, 5), cmp.Or(d.Source, storage.FromConfig)
	version := j.versionOf(d.Hash)
	if version == 0 {
		j.definitions = append(j.definitions, d)
		return int64(len(j.definitions))
	}
	known := &j.definitions[version-1]
	known.Description, known.Source = d.Description, d.Source
	return version
}

// settle removes the jobs of dead sessions.
func (s *Store) settle() {
	now := s.now()
	var dropped map[string]int64
	var last time.Time
	for _, l := range s.sessions {
		if len(l.carried) == 0 || l.live(now) {
			continue
		}
		if dropped == nil {
			dropped = map[string]int64{}
		}
		for name := range l.carried {
			dropped[name] = 0
		}
		l.carried = nil
		last = later(last, l.heartbeat)
	}
	if dropped != nil {
		s.leave(dropped, last)
		s.enforce(dropped)
	}
}

// leave records since when no session has a job.
func (s *Store) leave(names map[string]int64, since time.Time) {
	for name := range names {
		carried := false
		for _, l := range s.sessions {
			carried = carried || l.carried[name] > 0
		}
		if j := s.jobs[name]; !carried {
			j.absence = storage.Span{From: since}
		}
	}
}

// left reports whether no session had the job for longer than storage.MaxAbsence while a session
// without it was live.
func (s *Store) left(j *job) bool {
	if !j.absent() {
		return false
	}
	for _, l := range s.sessions {
		if l.heartbeat.Sub(later(l.started, j.absence.From)) > storage.MaxAbsence {
			return true
		}
	}
	return false
}

// absent reports whether no session has the job.
func (j *job) absent() bool { return !j.absence.From.IsZero() && j.absence.Until.IsZero() }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// enforce activates the newest definitions that sessions have. If no session has the job, its
// active definition remains.
func (s *Store) enforce(names map[string]int64) {
	newest := make(map[string]int64, len(names))
	for _, l := range s.sessions {
		for name := range names {
			newest[name] = max(newest[name], l.carried[name])
		}
	}
	changed := false
	now := s.now()
	for name, version := range newest {
		if j := s.jobs[name]; version > 0 && (version != j.version || j.absent()) {
			s.change(name, j, version, now)
			changed = true
		}
	}
	if changed {
		s.definitions++
	}
}

// change activates a version. The cursor moves only if the scheduled times change, or if an absent
// job returns.
func (s *Store) change(name string, j *job, version int64, now time.Time) {
	before, first := j.checkedUntil, j.version <= 0
	next, back := j.definitions[version-1], s.left(j)
	if first || back || !sameScheduledTimes(j.last(), next) {
		if j.checkedUntil.Before(now) {
			j.checkedUntil = now
		}
	}
	if j.absent() {
		j.absence.Until = now
	}
	if j.version == version && !back {
		return
	}
	j.version, j.updatedAt = version, now
	s.changes = append(s.changes,
		Change{At: now, Definition: next, Version: version, Checked: before,
			Counted: j.checkedUntil})
}

func sameScheduledTimes(a, b storage.Definition) bool {
	if a.Fingerprint == "" || b.Fingerprint == "" {
		return a.Zone == b.Zone && a.Schedule == b.Schedule
	}
	return a.Zone == b.Zone && a.Fingerprint == b.Fingerprint
}

// Withdraw implements storage.Sessions.
func (s *Store) Withdraw(ctx context.Context, id uuid.UUID, table string, names []string) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	l, live := s.liveSession(id)
	if !live {
		return nil
	}
	l.Table = table
	withdrawn := map[string]int64{}
	for _, name := range names {
		if l.carried[name] > 0 {
			withdrawn[name] = 0
			delete(l.carried, name)
		}
	}
	s.leave(withdrawn, s.now())
	s.enforce(withdrawn)
	return nil
}

// Versions implements storage.Sessions.
func (s *Store) Versions(ctx context.Context) (map[string]storage.ActiveDefinition, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	versions := make(map[string]storage.ActiveDefinition, len(s.jobs))
	for name, j := range s.jobs {
		if j.version != 0 {
			versions[name] = storage.ActiveDefinition{Version: j.version,
				CheckedUntil: j.checkedUntil}
		}
	}
	return versions, nil
}

// stale reports whether the active version of the job is not version.
func (s *Store) stale(name string, version int64) bool {
	j := s.jobs[name]
	return version > 0 && j != nil && j.version != 0 && j.version != version
}

// PassEnded moves the times of ended sessions into the past, for tests.
func (s *Store) PassEnded(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.sessions {
		if l.ended != nil {
			ended := l.ended.Add(-d)
			l.started, l.heartbeat, l.expires, l.ended = l.started.Add(-d), l.heartbeat.Add(-d),
				l.expires.Add(-d), &ended
		}
	}
	for i := range s.past {
		r := &s.past[i]
		ended := r.EndedAt.Add(-d)
		r.StartedAt, r.ExpiresAt, r.EndedAt = r.StartedAt.Add(-d), r.ExpiresAt.Add(-d), &ended
	}
}

// Pass moves the times of sessions, cursors and waiting runs into the past, for tests.
func (s *Store) Pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.sessions {
		l.started = l.started.Add(-d)
		if l.ended != nil {
			l.heartbeat = l.heartbeat.Add(-d)
		}
	}
	for _, r := range s.waiting {
		r.WaitSince = r.WaitSince.Add(-d)
		if !r.ReservedUntil.IsZero() {
			r.ReservedUntil = r.ReservedUntil.Add(-d)
		}
	}
	for _, j := range s.jobs {
		j.checkedUntil = j.checkedUntil.Add(-d)
		for _, at := range []*time.Time{&j.absence.From, &j.absence.Until} {
			if !at.IsZero() {
				*at = at.Add(-d)
			}
		}
	}
}
