package admin

import (
	"context"
	"net/http"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
)

func (s clusterPages) overviewJSON(w http.ResponseWriter, r *http.Request) {
	if err := param.Only(r); err != nil {
		s.WriteError(w, http.StatusBadRequest, err.Error())
		return
	}
	o, status := s.overview(r.Context(), s.SlowedSignIns(r))
	s.WriteJSON(w, status, o)
}

// overview returns the state of the cluster and the HTTP status.
func (s clusterPages) overview(ctx context.Context,
	slowed []cluster.SlowedSignIns) (Overview, int) {
	f := pages.Frame{SlowedSignIns: slowed}
	content, status, err := pages.QueryOrCached(s.Site, ctx, "/", &f, s.reader.Overview)
	if content == nil { // no sender can cause an error of Overview
		content = new(Overview)
		*content = cluster.EmptyOverview()
		if err != nil {
			f.Error, status = pages.StoreError(err), http.StatusServiceUnavailable
		}
	}
	s.completeOverview(content, &f)
	return *content, status
}

// completeOverview adds what only the server knows.
func (s clusterPages) completeOverview(o *Overview, f *pages.Frame) {
	o.Stale, o.Error, o.ServedBy, o.Memcached = f.Stale, f.Error, f.ServedBy,
		s.Local.Memcached()
	o.Can, o.CanAll = f.Can, f.CanAll
	o.Status = f.Status
}

func (s clusterPages) overviewPage(w http.ResponseWriter, r *http.Request) {
	if err := param.Only(r, "refresh"); err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	pages.Show(s.Site, w, r, pages.Page[Overview]{
		Template: "overview.html", Section: "/", Title: "Overview", JSONPath: "/api/v1/overview",
		Live: true, Load: s.reader.Overview,
		Complete: func(o *Overview, f *pages.Frame) {
			s.completeOverview(o, f)
			f.Title = o.Title()
		},
	})
}

// statusJSON answers with the status of the cluster. If the state could not be read, the HTTP
// status is 503. Then the status is that of a store that does not answer, or the last one if too
// many requests query the store.
func (s clusterPages) statusJSON(w http.ResponseWriter, r *http.Request) {
	if err := param.Only(r); err != nil {
		s.WriteError(w, http.StatusBadRequest, err.Error())
		return
	}
	f := pages.Frame{SlowedSignIns: s.SlowedSignIns(r)}
	_, status, err := pages.QueryOrCached(s.Site, r.Context(), "/api/v1/status", &f,
		func(context.Context, cluster.Snapshot) (struct{}, error) { return struct{}{}, nil })
	if err != nil { // ErrNotFound of a session that ended meanwhile
		status = http.StatusServiceUnavailable
	}
	s.WriteJSON(w, status, f.Status)
}
