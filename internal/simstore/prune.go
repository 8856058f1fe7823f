package simstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
)

// turn is whose it is to prune.
type turn struct {
	whose uuid.UUID
	until time.Time
}

const turnLasts = 30 * time.Second

func (t *turn) take(session uuid.UUID, now time.Time) bool {
	if session != t.whose && now.Before(t.until) {
		return false
	}
	t.whose, t.until = session, now.Add(turnLasts)
	return true
}

// Prune implements jobs.Upkeep.
func (s *Store) Prune(ctx context.Context, session uuid.UUID, r jobs.PruneRequest) (jobs.Pruned, error) {
	if err := s.enter(ctx); err != nil {
		return jobs.Pruned{}, err
	}
	defer s.mu.Unlock()
	now := s.instant()
	if !s.pruning.take(session, now) {
		return jobs.Pruned{Busy: true}, nil
	}
	var pruned jobs.Pruned
	before := now.Add(-r.Keep)
	if r.After == nil {
		for _, j := range s.jobs {
			pruned.Definitions += s.forgetDefinitions(j, now, before)
		}
	}
	s.blockages = slices.DeleteFunc(s.blockages, func(b blockage) bool { return b.until.Before(before) })
	old := s.old(before, r)
	for _, one := range old {
		if s.forgettable(one, before) {
			delete(s.runs, one.ID)
			delete(s.firings, firingOf(jobs.Firing{Job: one.Job, Due: one.Due, Key: one.Key, Recovery: one.Recovery}))
			pruned.Runs++
		}
	}
	if len(old) == r.Limit {
		last := old[len(old)-1]
		pruned.Next = &jobs.RunCursor{CreatedAt: last.CreatedAt, ID: last.ID}
	}
	return pruned, nil
}

// old returns the next runs from the beginning of the history.
func (s *Store) old(before time.Time, r jobs.PruneRequest) []*run {
	older := func(a, b jobs.RunCursor) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), bytes.Compare(a.ID[:], b.ID[:]))
	}
	var old []*run
	for _, one := range s.runs {
		if one.CreatedAt.Before(before) && (r.After == nil || older(jobs.RunCursor{CreatedAt: one.CreatedAt, ID: one.ID}, *r.After) > 0) {
			old = append(old, one)
		}
	}
	slices.SortFunc(old, func(a, b *run) int {
		return older(jobs.RunCursor{CreatedAt: a.CreatedAt, ID: a.ID}, jobs.RunCursor{CreatedAt: b.CreatedAt, ID: b.ID})
	})
	return old[:min(len(old), r.Limit)]
}

// forgettable reports whether a run has ended before, and its due is decided.
func (s *Store) forgettable(r *run, before time.Time) bool {
	ended := r.CreatedAt
	if r.FinishedAt != nil {
		ended = *r.FinishedAt
	}
	j := s.jobs[r.Job]
	return r.State.Final() && ended.Before(before) && (r.Key != "" || j == nil || j.version == 0 || !r.Due.After(j.checkedUntil))
}

// forgetDefinitions notes which definitions nobody carries, and forgets those
// that were noted before. Their places stay: versions are counted by them.
func (s *Store) forgetDefinitions(j *job, now, before time.Time) (forgotten int) {
	if j.idle == nil {
		j.idle = map[int64]time.Time{}
	}
	for version := int64(1); version <= int64(len(j.definitions)); version++ {
		d := &j.definitions[version-1]
		since, noted := j.idle[version]
		switch {
		case d.Hash == "":
		case version == max(j.version, -j.version) || s.carried(d.Name, version):
			delete(j.idle, version)
		case !noted:
			j.idle[version] = now
		case since.Before(before) && version < int64(len(j.definitions)):
			d.Hash = ""
			forgotten++
		}
	}
	return forgotten
}

func (s *Store) carried(name string, version int64) bool {
	for _, l := range s.sessions {
		if l.carried[name] == version {
			return true
		}
	}
	return false
}
