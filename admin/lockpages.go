package admin

import (
	"context"
	"net/http"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

func (s lockPages) locksJSON(w http.ResponseWriter, r *http.Request) {
	pages.Answer(s.Site, w, r, func(ctx context.Context) ([]Lock, error) {
		if err := param.Only(r); err != nil {
			return nil, err
		}
		set, err := s.reader.lock.Locks(ctx)
		return set.Locks, err
	})
}

// locksPage shows held resources, their holders and their waiters.
func (s lockPages) locksPage(w http.ResponseWriter, r *http.Request) {
	p, err := param.Read(r, append(locks.LockParams(), "refresh")...)
	var filter locks.Filter
	if err == nil {
		filter, err = locks.ReadLockFilter(p)
	}
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	pages.Show(s.Site, w, r, pages.Page[locks.ResourceTree]{
		Template: "locks.html", Section: "/locks", Title: "Locks",
		JSONPath: p.With("/api/v1/locks/tree"), Live: true, Fields: true,
		Topics: []storage.Topic{storage.TopicLocks, storage.TopicRuns, storage.TopicJobs},
		Load: func(ctx context.Context, snap cluster.Snapshot) (locks.ResourceTree, error) {
			tree, err := s.reader.lock.ResourceTree(ctx, snap.Now, filter)
			tree.Link(p, filter)
			return tree, err
		},
	})
}

func (s lockPages) lockTreeJSON(w http.ResponseWriter, r *http.Request) {
	pages.Answer(s.Site, w, r, func(ctx context.Context) (locks.ResourceTree, error) {
		p, err := param.Read(r, locks.LockParams()...)
		if err != nil {
			return locks.ResourceTree{}, err
		}
		filter, err := locks.ReadLockFilter(p)
		if err != nil {
			return locks.ResourceTree{}, err
		}
		snap, err := s.reader.Snapshot(ctx)
		if err != nil {
			return locks.ResourceTree{}, err
		}
		tree, err := s.reader.lock.ResourceTree(ctx, snap.Now, filter)
		param.SetLinks(w, p.TreePager("/api/v1/locks/tree", tree.Pager.NextPage))
		return tree, err
	})
}

func (s lockPages) timelineJSON(w http.ResponseWriter, r *http.Request) {
	pages.Answer(s.Site, w, r, func(ctx context.Context) (locks.Timeline, error) {
		p, err := param.Read(r, locks.TimelineParams()...)
		if err != nil {
			return locks.Timeline{}, err
		}
		q, err := locks.ReadTimelineQuery(p)
		if err != nil {
			return locks.Timeline{}, err
		}
		now, err := s.reader.Now(ctx)
		if err != nil {
			return locks.Timeline{}, err
		}
		t, err := s.reader.lock.Timeline(ctx, now, q)
		param.SetLinks(w, t.PagerOf(p, "/api/v1/locks/timeline", q))
		return t, err
	})
}

func (s lockPages) timelinePage(w http.ResponseWriter, r *http.Request) {
	p, err := param.Read(r, append(locks.TimelineParams(), "refresh", param.Lanes)...)
	var q locks.TimelineQuery
	if err == nil {
		q, err = locks.ReadTimelineQuery(p)
	}
	if err == nil {
		err = q.Keep(p.Get(param.Lanes))
	}
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	p.Del(param.Lanes)
	pages.Show(s.Site, w, r, pages.Page[locks.Timeline]{
		Template: "timeline.html", Section: "/locks", Title: "Timeline of locks",
		JSONPath: p.With("/api/v1/locks/timeline"), Live: q.Live(),
		Topics: []storage.Topic{storage.TopicRuns, storage.TopicLocks},
		Load: func(ctx context.Context, snap cluster.Snapshot) (locks.Timeline, error) {
			t, err := s.reader.lock.Timeline(ctx, snap.Now, q)
			if err == nil {
				t.Draw(p, q)
			}
			return t, err
		},
		Complete: func(t *locks.Timeline, f *pages.Frame) { f.Lanes = t.Kept() },
	})
}

func (s lockPages) contentionJSON(w http.ResponseWriter, r *http.Request) {
	pages.Answer(s.Site, w, r, func(ctx context.Context) (locks.Contentions, error) {
		p, err := param.Read(r, locks.ContentionParams()...)
		if err != nil {
			return locks.Contentions{}, err
		}
		q, err := locks.ReadContentionQuery(p)
		if err != nil {
			return locks.Contentions{}, err
		}
		now, err := s.reader.Now(ctx)
		if err != nil {
			return locks.Contentions{}, err
		}
		return s.reader.lock.Contentions(ctx, now, q)
	})
}

func (s lockPages) contentionPage(w http.ResponseWriter, r *http.Request) {
	p, err := param.Read(r, append(locks.ContentionParams(), "refresh")...)
	var q locks.ContentionQuery
	if err == nil {
		q, err = locks.ReadContentionQuery(p)
	}
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	pages.Show(s.Site, w, r, pages.Page[locks.Contentions]{
		Template: "contention.html", Section: "/locks", Title: "Contention",
		JSONPath: p.With("/api/v1/locks/contention"),
		Load: func(ctx context.Context, snap cluster.Snapshot) (locks.Contentions, error) {
			c, err := s.reader.lock.Contentions(ctx, snap.Now, q)
			c.Link(p, q)
			return c, err
		},
	})
}

func (s lockPages) upcomingConflictsJSON(w http.ResponseWriter, r *http.Request) {
	pages.Answer(s.Site, w, r, func(ctx context.Context) (locks.UpcomingConflicts, error) {
		p, err := param.Read(r, "resource")
		if err != nil {
			return locks.UpcomingConflicts{}, err
		}
		about, err := p.Resource("resource")
		if err != nil {
			return locks.UpcomingConflicts{}, err
		}
		now, err := s.reader.Now(ctx)
		if err != nil {
			return locks.UpcomingConflicts{}, err
		}
		return s.reader.lock.UpcomingConflicts(ctx, now, about)
	})
}

func (s lockPages) upcomingConflictsPage(w http.ResponseWriter, r *http.Request) {
	p, err := param.Read(r, "resource", "refresh")
	var about *locking.Resource
	if err == nil {
		about, err = p.Resource("resource")
	}
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	pages.Show(s.Site, w, r, pages.Page[locks.UpcomingConflicts]{
		Template: "upcoming.html", Section: "/locks", Title: "Upcoming conflicts",
		JSONPath: p.With("/api/v1/locks/upcoming"),
		Load: func(ctx context.Context, snap cluster.Snapshot) (locks.UpcomingConflicts, error) {
			f, err := s.reader.lock.UpcomingConflicts(ctx, snap.Now, about)
			f.Resource = p.Get("resource")
			return f, err
		},
	})
}
