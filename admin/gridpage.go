package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/grid"
	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// gridParams are the parameters of the grid of jobs by scheduled time.
func gridParams() []string {
	return append(grid.Params(), "text", "group", "after", "before")
}

func readGrid(p param.Set) (q grid.Query, filter storage.JobFilter, err error) {
	if q, err = grid.ReadQuery(p); err != nil {
		return q, filter, err
	}
	filter, err = readJobFilter(p, grid.MaxRows)
	return q, filter, err
}

func (s runPages) gridJSON(w http.ResponseWriter, r *http.Request) {
	pages.Answer(s.Site, w, r, func(ctx context.Context) (grid.Grid, error) {
		p, err := param.Read(r, gridParams()...)
		if err != nil {
			return grid.Grid{}, err
		}
		q, filter, err := readGrid(p)
		if err != nil {
			return grid.Grid{}, err
		}
		now, err := s.reader.Now(ctx)
		if err != nil {
			return grid.Grid{}, err
		}
		g, next, previous, err := s.reader.grid(ctx, now, q, filter)
		param.SetLinks(w, gridPager(p, r.URL.EscapedPath(), g, next, previous))
		return g, err
	})
}

// grid returns a page of the jobs that the filter selects.
func (r *reader) grid(ctx context.Context, now time.Time, q grid.Query,
	filter storage.JobFilter) (g grid.Grid, next, previous bool, err error) {
	index, err := r.lists.jobIndex(ctx, now)
	if err != nil {
		return g, false, false, err
	}
	return grid.Load(ctx, r.Store, now, q, grid.Selection{All: index.states,
		Selected: selectStates(index.grid, filter), Families: index.families,
		After: filter.After, Before: filter.Before, Open: q.Open,
		HeldBack: func(ctx context.Context,
			paused []storage.JobState) (map[string]grid.Held, error) {
			return heldBack(ctx, r, paused)
		}})
}

// heldBack returns the scheduled times that active pauses hold back, as far as this replica knows
// them. Times before the misfire cursor are decided. The job may have had other times before its
// active definition. This replica may have another definition of the job, and cannot tell when a
// job is due that runs after others.
func heldBack(ctx context.Context, r *reader,
	paused []storage.JobState) (map[string]grid.Held, error) {
	if r.table == nil {
		return nil, nil
	}
	checked, names := make(map[string]time.Time), []string{}
	for _, job := range paused {
		checked[job.Job] = job.CheckedUntil
		names = append(names, job.Job)
	}
	views, err := r.Store.ListJobs(ctx, storage.JobFilter{Names: names, Limit: len(names)})
	if err != nil {
		return nil, err
	}
	held := make(map[string]grid.Held)
	for _, v := range views {
		job, known := r.table.Job(v.Name)
		if !known || v.Removed || len(v.Pauses) == 0 || r.table.Hash(v.Name) != v.Hash ||
			len(job.Schedule.After()) > 0 {
			continue
		}
		since := v.Pauses[0].At
		for _, p := range v.Pauses {
			if p.At.Before(since) {
				since = p.At
			}
		}
		for _, at := range []time.Time{checked[v.Name], v.UpdatedAt} {
			if at.After(since) {
				since = at
			}
		}
		held[v.Name] = grid.Held{Since: since, Next: job.Schedule.Next}
	}
	return held, nil
}

// gridPage shows jobs by scheduled time.
func (s runPages) gridPage(w http.ResponseWriter, r *http.Request) {
	p, err := param.Read(r, append(gridParams(), "open", "refresh")...)
	var q grid.Query
	var filter storage.JobFilter
	if err == nil {
		q, filter, err = readGrid(p)
	}
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	pages.Show(s.Site, w, r, pages.Page[grid.Grid]{
		Template: "grid.html", Section: "/runs", Title: "Grid of runs", Live: q.Live(),
		Fields: true, JSONPath: p.With("/api/v1/grid", "open", ""),
		Topics: []storage.Topic{storage.TopicRuns, storage.TopicJobs},
		Load: func(ctx context.Context, snap cluster.Snapshot) (grid.Grid, error) {
			g, next, previous, err := s.reader.grid(ctx, snap.Now, q, filter)
			if err != nil {
				return g, err
			}
			if g.Groups, err = s.reader.Groups(ctx, snap.Now); err != nil {
				return g, err
			}
			g.Filter = grid.Filter{Text: filter.Text, Group: filter.Group, Span: p.Get("span"),
				Until: p.Get("until"), Only: p.Get("only"), Open: q.Open}
			g.Link(p, "/grid", q, snap.Now)
			g.Pager = gridPager(p, "/grid", g, next, previous)
			return g, nil
		},
		Complete: func(g *grid.Grid, _ *pages.Frame) {
			g.Groups = offeredGroups(r.Context(), g.Groups, filter.Group)
		},
	})
}

// gridPager links the pages of jobs around a grid.
func gridPager(p param.Set, path string, g grid.Grid, next, previous bool) param.Pager {
	if len(g.Rows) == 0 {
		return param.Pager{}
	}
	return p.Pager(path, jobCursors(), g.Rows[0].Job, g.Rows[len(g.Rows)-1].Job, next, previous)
}
