package simstore

import (
	"context"
	"maps"
	"slices"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Drift implements storage.History.
func (s *Store) Drift(ctx context.Context, limit int) ([]storage.JobDrift, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	youngest := s.youngest()
	newest := map[string]int64{}
	for _, l := range youngest {
		for name, version := range l.carried {
			if s.jobs[name].definitions[version-1].Source != storage.FromStore {
				newest[name] = max(newest[name], version)
			}
		}
	}
	var found []storage.JobDrift
	differing := 0
	for _, name := range slices.Sorted(maps.Keys(newest)) {
		same := true
		for _, l := range youngest {
			same = same && l.carried[name] == newest[name]
		}
		if same {
			continue
		}
		if differing++; differing > limit {
			break
		}
		for _, replica := range slices.Sorted(maps.Keys(youngest)) {
			version, has := youngest[replica].carried[name]
			found = storage.AddDrift(found, name, replica, !has, version == newest[name])
		}
	}
	return found, nil
}

// youngest returns for each replica the youngest live session that has reported its configuration.
func (s *Store) youngest() map[string]*session {
	now := s.now()
	youngest := map[string]*session{}
	for _, l := range s.sessions {
		if l.Table == "" || !l.live(now) {
			continue
		}
		if other := youngest[l.Replica]; other == nil || l.started.After(other.started) {
			youngest[l.Replica] = l
		}
	}
	return youngest
}
