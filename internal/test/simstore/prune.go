package simstore

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Prune implements storage.Upkeep.
func (s *Store) Prune(ctx context.Context, session uuid.UUID,
	r storage.PruneRequest) (storage.Pruned, error) {
	if err := s.enter(ctx); err != nil {
		return storage.Pruned{}, err
	}
	defer s.mu.Unlock()
	now := s.writeTime()
	if !s.pruning.Take(session, now) {
		return storage.Pruned{Busy: true}, nil
	}
	var pruned storage.Pruned
	before := now.Add(-r.Keep)
	if r.Triggered {
		pruned.Runs = s.pruneTriggered(before, r.Limit)
		pruned.More = pruned.Runs == r.Limit
		return pruned, nil
	}
	if r.After == nil {
		for _, j := range s.jobs {
			pruned.Definitions += s.forgetDefinitions(j, now, before)
		}
	}
	s.waitHistory = slices.DeleteFunc(s.waitHistory, func(b waitRecord) bool {
		return b.until.Before(before)
	})
	maps.DeleteFunc(s.tallies, func(t storage.Tally, _ int) bool {
		return t.Quarter.Before(before)
	})
	maps.DeleteFunc(s.backfills, func(id uuid.UUID, b *rules.Backfill) bool {
		return b.EndedAt != nil && b.EndedAt.Before(before) && len(s.unfinished[id]) == 0
	})
	pruned.Audited = s.control.pruneAudit(before, r.Limit)
	old, last := s.old(before, r), s.lastEnded()
	for _, one := range old {
		if one != last[one.Job] && s.forgettable(one, before) {
			s.forget(one)
			pruned.Runs++
		}
	}
	if len(old) == r.Limit {
		end := old[len(old)-1]
		pruned.Next = &storage.RunCursor{CreatedAt: end.CreatedAt, ID: end.ID}
	}
	return pruned, nil
}

// forget deletes a run, and remembers the last success of its job.
func (s *Store) forget(r *run) {
	delete(s.runs, r.ID)
	if r.succeededByItself() && s.successes[r.Job].Before(r.ScheduledAt) {
		s.successes[r.Job] = r.ScheduledAt
	}
	if f := r.unique(); s.firings[f] == r {
		delete(s.firings, f)
	}
}

// pruneTriggered deletes ended runs of triggers, and returns how many.
func (s *Store) pruneTriggered(before time.Time, limit int) (pruned int) {
	last := s.lastEnded()
	for _, r := range s.runs {
		if pruned < limit && r.Key != "" && r.Backfill == uuid.Nil && r != last[r.Job] &&
			s.jobs[r.Job] != nil && r.ScheduledAt.Before(before) && s.forgettable(r, before) {
			s.forget(r)
			pruned++
		}
	}
	return pruned
}

// inOrder compares positions in the history.
func inOrder(a, b storage.RunCursor) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), bytes.Compare(a.ID[:], b.ID[:]))
}

// lastEnded returns the last run of each job that has ended.
func (s *Store) lastEnded() map[string]*run {
	last := map[string]*run{}
	for _, r := range s.runs {
		if l := last[r.Job]; r.State.Final() && (l == nil || inOrder(r.cursor(), l.cursor()) > 0) {
			last[r.Job] = r
		}
	}
	return last
}

func (r *run) cursor() storage.RunCursor {
	return storage.RunCursor{CreatedAt: r.CreatedAt, ID: r.ID}
}

// old returns the next runs from the beginning of the history.
func (s *Store) old(before time.Time, r storage.PruneRequest) []*run {
	var old []*run
	for _, one := range s.runs {
		if one.CreatedAt.Before(before) && (r.After == nil || inOrder(one.cursor(), *r.After) > 0) {
			old = append(old, one)
		}
	}
	slices.SortFunc(old, func(a, b *run) int {
		return inOrder(a.cursor(), b.cursor())
	})
	return old[:min(len(old), r.Limit)]
}

// unhandled reports whether a dependent of the run's job, which a session has and which may be
// paused, has yet to handle its scheduled time.
func (s *Store) unhandled(r *run) bool {
	for _, j := range s.jobs {
		if j.version > 0 && !j.absent() && slices.Contains(j.last().After, r.Job) &&
			r.ScheduledAt.After(j.checkedUntil) {
			return true
		}
	}
	return false
}

// forgettable reports whether a run ended before then, and its scheduled time is decided.
func (s *Store) forgettable(r *run, before time.Time) bool {
	ended := r.CreatedAt
	if r.FinishedAt != nil {
		ended = *r.FinishedAt
	}
	j := s.jobs[r.Job]
	return r.State.Final() && ended.Before(before) && (r.Key != "" || !s.unhandled(r)) &&
		(r.Key != "" || j == nil || j.version == 0 || !r.ScheduledAt.After(j.checkedUntil))
}

// forgetDefinitions marks the definitions that no session has, and deletes those that were marked
// before. Their slots remain, because versions count them.
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
