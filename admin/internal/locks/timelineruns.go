package locks

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// fill queries the runs of the lanes' jobs, up to maxDrawnRuns.
func (r *Reader) fill(ctx context.Context, t *Timeline) error {
	names := make(map[string]bool)
	for i := range t.Lanes {
		l := &t.Lanes[i]
		room := storage.MaxBatch - len(names)
		if fresh := countNew(names, l.jobs); fresh > room {
			t.Cut = append(t.Cut,
				fmt.Sprintf("%s is locked by %d jobs, of which only some are drawn",
					words.Cut(l.Resource, 100), l.Jobs))
			l.jobs = l.jobs[:min(len(l.jobs), room)]
		}
		for _, name := range l.jobs {
			names[name] = true
		}
	}
	of, full, err := r.timelineRuns(ctx, t, slices.Sorted(maps.Keys(names)))
	if err != nil {
		return err
	}
	t.noteOmitted(of, full)
	for i := range t.Lanes {
		l := &t.Lanes[i]
		for _, name := range l.jobs {
			l.Runs = append(l.Runs, of[name]...)
		}
		slices.SortFunc(l.Runs, func(a, b storage.RunInterval) int {
			return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), bytes.Compare(a.Run[:], b.Run[:]))
		})
	}
	return nil
}

// timelineRuns queries the same number of runs for each job, then more for jobs that have more. It
// also returns the jobs that have still more.
func (r *Reader) timelineRuns(ctx context.Context, t *Timeline,
	names []string) (of map[string][]storage.RunInterval, full []string, err error) {
	of = make(map[string][]storage.RunInterval)
	room, asked := maxDrawnRuns, names
	for range 2 {
		if len(asked) == 0 {
			break
		}
		each := min(storage.MaxRunIntervals, max(minRunsPerJob, room/len(asked)))
		found, err := r.Store.RunIntervals(ctx,
			storage.RunIntervalFilter{Jobs: asked, From: t.From, Until: t.Until, Each: each})
		if err != nil {
			return nil, nil, fmt.Errorf("query runs of the window: %w", err)
		}
		for _, name := range asked {
			delete(of, name)
		}
		within := make(map[string]int)
		for _, s := range found {
			of[s.Job] = append(of[s.Job], plainTimelineRun(s))
			if !s.CreatedAt.Before(t.From) {
				within[s.Job]++
			}
		}
		full = nil
		for _, name := range asked {
			if within[name] < each {
				room -= within[name]
			} else {
				full = append(full, name)
			}
		}
		if len(full) > 0 && room/len(full) <= each {
			break
		}
		asked = full
	}
	return of, full, nil
}

// plainTimelineRun returns a run with times in UTC and display names, so that all replicas show the
// same.
func plainTimelineRun(s storage.RunInterval) storage.RunInterval {
	s.ScheduledAt, s.CreatedAt, s.StartedAt, s.FinishedAt = s.ScheduledAt.UTC(), s.CreatedAt.UTC(),
		records.InUTC(s.StartedAt), records.InUTC(s.FinishedAt)
	if s.BlockedBy != nil {
		s.BlockedBy = records.PlainBlocker(s.BlockedBy)
	}
	return s
}
