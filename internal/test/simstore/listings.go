package simstore

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// ListJobs implements storage.Listings.
func (s *Store) ListJobs(ctx context.Context, f storage.JobFilter) ([]storage.JobView, error) {
	all, err := s.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var found []storage.JobView
	for _, v := range all {
		v.Pauses = s.pausesOf(v)
		if s.lists(f, v) {
			found = append(found, v)
		}
	}
	limit := min(storage.PageSize(f.Limit), len(found))
	if f.Before != "" && f.After == "" {
		return found[len(found)-limit:], nil
	}
	return found[:limit], nil
}

func (s *Store) lists(f storage.JobFilter, v storage.JobView) bool {
	lower := strings.ToLower(f.Text)
	switch {
	case f.Names != nil && !slices.Contains(f.Names, v.Name),
		!strings.Contains(strings.ToLower(v.Name), lower) &&
			!strings.Contains(strings.ToLower(v.Description), lower),
		f.Group != "" && v.Group != f.Group, f.Ungrouped && v.Group != "",
		f.Source != "" && v.Source != f.Source,
		f.After != "" && v.Name <= f.After, f.Before != "" && v.Name >= f.Before,
		f.Paused != nil && *f.Paused != (len(v.Pauses) > 0):
		return false
	case f.State == "":
		return true
	case f.State.Final():
		return v.Last != nil && v.Last.State == f.State
	}
	for _, r := range s.runs {
		if r.Job == v.Name && r.State == f.State && !r.StartsLater(s.now()) {
			return true
		}
	}
	return false
}

func (s *Store) pausesOf(v storage.JobView) []storage.Pause {
	var covering []storage.Pause
	for _, p := range s.control.pauses {
		if p.ResumedAt == nil && p.Covers(v.Name, v.Group) {
			covering = append(covering, p)
		}
	}
	return covering
}

// Job implements storage.Listings.
func (s *Store) Job(ctx context.Context, name string) (storage.JobView, error) {
	all, err := s.Jobs(ctx)
	if err != nil {
		return storage.JobView{}, err
	}
	if err := s.enter(ctx); err != nil {
		return storage.JobView{}, err
	}
	defer s.mu.Unlock()
	for _, v := range all {
		if v.Name == name {
			v.Pauses = s.pausesOf(v)
			return v, nil
		}
	}
	return storage.JobView{}, fmt.Errorf("job %q: %w", name, storage.ErrNotFound)
}

// JobStates implements storage.Listings.
func (s *Store) JobStates(ctx context.Context) ([]storage.JobState, error) {
	all, err := s.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	states := make([]storage.JobState, len(all))
	for i, v := range all {
		states[i] = storage.JobState{Job: v.Name, Description: v.Description, Group: v.Group,
			Source: v.Source, Paused: len(s.pausesOf(v)) > 0,
			Waiting:  s.lists(storage.JobFilter{State: jobs.Waiting}, v),
			Running:  s.lists(storage.JobFilter{State: jobs.Running}, v),
			Schedule: v.Schedule, Zone: v.Zone, Handler: v.Handler,
			CheckedUntil: s.jobs[v.Name].checkedUntil}
		if v.Last != nil {
			states[i].Last = v.Last.State
		}
	}
	return states, nil
}

// Groups implements storage.Listings.
func (s *Store) Groups(ctx context.Context) ([]storage.Group, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	counts := map[string]int{}
	for _, j := range s.jobs {
		if j.version > 0 && j.last().Group != "" {
			counts[j.last().Group]++
		}
	}
	var groups []storage.Group
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		groups = append(groups, storage.Group{Name: name, Jobs: counts[name]})
	}
	return groups, nil
}

// Resources implements storage.Listings.
func (s *Store) Resources(ctx context.Context) ([]locking.Resource, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	known := map[locking.Resource]bool{}
	for _, j := range s.jobs {
		if j.version <= 0 {
			continue
		}
		for _, r := range j.last().Resources {
			if r.Resource.Kind() != locking.KindJob {
				known[r.Resource] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(known), func(a, b locking.Resource) int {
		return strings.Compare(a.Key(), b.Key())
	}), nil
}

// Outcomes implements storage.Listings.
func (s *Store) Outcomes(ctx context.Context, of []storage.OutcomesOf,
	n int) (map[string][]storage.Outcome, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	found := map[string][]storage.Outcome{}
	for _, r := range s.sorted() {
		selected := slices.ContainsFunc(of, func(o storage.OutcomesOf) bool {
			return o.Job == r.Job && r.CreatedAt.After(o.After)
		})
		if selected && r.Backfill == uuid.Nil && len(found[r.Job]) < n {
			found[r.Job] = append(found[r.Job], storage.Outcome{
				Run: r.ID, ScheduledAt: r.ScheduledAt, State: r.State, Reason: r.Reason,
				StartedAt: r.StartedAt, FinishedAt: r.FinishedAt,
				RetryWaits: r.RetryWaits, CreatedAt: r.CreatedAt,
			})
		}
	}
	return found, nil
}

// sorted returns all runs, the youngest first.
func (s *Store) sorted() []storage.Record {
	all := make([]storage.Record, 0, len(s.runs))
	for _, r := range s.runs {
		all = append(all, r.Record)
	}
	slices.SortFunc(all, younger)
	return all
}

// EndCounts implements storage.Listings.
func (s *Store) EndCounts(ctx context.Context, since time.Time) ([]storage.EndCount, error) {
	return s.tally(ctx, func(r storage.Record) bool {
		return !r.CreatedAt.Before(since) && r.State.Final() && r.State != jobs.Succeeded
	})
}

// JobEndCounts implements storage.Listings.
func (s *Store) JobEndCounts(ctx context.Context, job string,
	since time.Time) ([]storage.EndCount, error) {
	return s.tally(ctx, func(r storage.Record) bool {
		return r.Job == job && !r.CreatedAt.Before(since) && r.State.Final()
	})
}

func (s *Store) tally(ctx context.Context,
	counts func(r storage.Record) bool) ([]storage.EndCount, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var endCounts []storage.EndCount
	for _, r := range s.sorted() {
		if !counts(r) {
			continue
		}
		index := slices.IndexFunc(endCounts, func(t storage.EndCount) bool {
			return t.Job == r.Job && t.State == r.State && t.Reason == r.Reason
		})
		if index < 0 {
			index = len(endCounts)
			endCounts = append(endCounts, storage.EndCount{Job: r.Job, State: r.State,
				Reason: r.Reason, Last: r.CreatedAt})
		}
		endCounts[index].Runs++
	}
	return endCounts, nil
}

// EndedJobs implements storage.Listings.
func (s *Store) EndedJobs(ctx context.Context,
	f storage.EndedJobsFilter) (storage.EndedJobs, error) {
	considered := make(map[jobs.State]int)
	counts, err := s.tally(ctx, func(r storage.Record) bool {
		if r.CreatedAt.Before(f.From) || !r.CreatedAt.Before(f.Until) ||
			!slices.Contains(f.States, r.State) {
			return false
		}
		considered[r.State]++
		return considered[r.State] <= f.Most+1
	})
	return storage.NewEndedJobs(counts, f), err
}

// CountRuns implements storage.Listings.
func (s *Store) CountRuns(ctx context.Context, parts []storage.JobPart,
	most int) ([]storage.JobPartCount, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	counts := make([]storage.JobPartCount, len(parts))
	for i, p := range parts {
		unsuccessful := 0
		for _, r := range s.sorted() {
			if r.Job != p.Job || r.CreatedAt.Before(p.From) || !r.CreatedAt.Before(p.Until) {
				continue
			}
			counts[i].Runs++
			if r.State.Final() && r.State != jobs.Succeeded {
				unsuccessful++
				if unsuccessful <= min(most, storage.MaxUnsuccessful)+1 {
					counts[i].Add(r.State, 1, r.ScheduledAt)
				}
			}
		}
		counts[i].Bound(most)
	}
	return counts, nil
}

// CountFiltered implements storage.Listings.
func (s *Store) CountFiltered(ctx context.Context, f storage.RunFilter,
	most int) (c storage.RunCount, err error) {
	if err := s.enter(ctx); err != nil {
		return c, err
	}
	defer s.mu.Unlock()
	f.States, f.Before, f.After = nil, nil, nil
	for _, r := range s.runs {
		if !matches(f, r) || !s.selects(f, r.Job) {
			continue
		}
		if c.Runs++; r.State.Final() && r.State != jobs.Succeeded {
			c.AddUnsuccessful(r.State, 1, 1, most)
		}
	}
	for _, n := range c.Unsuccessful {
		c.MoreUnsuccessful = c.MoreUnsuccessful || n > most
	}
	c.More, c.Runs = c.Runs > most, min(c.Runs, most)
	if f.Reason != "" || f.Error != "" {
		c.OnlyUnsuccessful()
	}
	return c, nil
}

// FiringRuns implements storage.Listings.
func (s *Store) FiringRuns(ctx context.Context, f storage.Firing) ([]storage.Record, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var chain []storage.Record
	for _, r := range s.runs {
		if r.Job == f.Job && r.Key == f.Key &&
			(f.Key != "" || r.ScheduledAt.Equal(rules.Whole(f.ScheduledAt))) {
			chain = append(chain, r.Record)
		}
	}
	slices.SortFunc(chain, func(a, b storage.Record) int { return a.Recovery - b.Recovery })
	return chain, nil
}

// selects reports whether the filter selects the job by its prefix, group or resource.
func (s *Store) selects(f storage.RunFilter, job string) bool {
	j := s.jobs[job]
	switch {
	case f.JobPrefix != "" && (j == nil || !strings.HasPrefix(job, f.JobPrefix)):
		return false
	case f.Group != "" && (j == nil || j.version == 0 || j.last().Group != f.Group):
		return false
	}
	return f.Resource == nil || s.locks(job, *f.Resource)
}

// locks reports whether the job's definition names the resource, one of its ancestors or one of its
// descendants.
func (s *Store) locks(job string, resource locking.Resource) bool {
	j := s.jobs[job]
	if j == nil || j.version == 0 {
		return false
	}
	return slices.ContainsFunc(j.last().Resources, func(r locking.Request) bool {
		return r.Resource.Related(resource)
	})
}

// RunsBetween implements storage.Listings.
func (s *Store) RunsBetween(ctx context.Context, first, last uuid.UUID,
	limit int) ([]storage.Record, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var found []storage.Record
	for _, r := range s.runs {
		if bytes.Compare(r.ID[:], first[:]) >= 0 && bytes.Compare(r.ID[:], last[:]) <= 0 {
			found = append(found, r.Record)
			found[len(found)-1].Output, found[len(found)-1].Result = "", nil
		}
	}
	slices.SortFunc(found, func(a, b storage.Record) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return found[:min(limit, len(found))], nil
}
