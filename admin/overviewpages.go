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
	o, status := s.overview(r.Context())
	s.WriteJSON(w, status, o)
}

// overview returns the state of the cluster and the HTTP status.
func (s clusterPages) overview(ctx context.Context) (Overview, int) {
	var f pages.Frame
	_, content, status, err := pages.QueryOrCached(s.Site, ctx, "/", &f, s.reader.Overview)
	if content == nil { // load returns no errors of the caller here
		content = new(Overview)
		*content = cluster.EmptyOverview()
		if err != nil {
			f.Error, status = pages.StoreTrouble(err), http.StatusServiceUnavailable
		}
	}
	f.ServedBy = s.Local.ServedBy(ctx)
	return *s.completeOverview(content, &f), status
}

// completeOverview adds what only the server knows.
func (s clusterPages) completeOverview(o *Overview, f *pages.Frame) *Overview {
	o.Stale, o.Error, o.ServedBy, o.Memcached, o.Actions = f.Stale, f.Error, f.ServedBy,
		s.Local.Memcached(), f.Actions
	o.Problems = cluster.Problems(o)
	return o
}

func (s clusterPages) overviewPage(w http.ResponseWriter, r *http.Request) {
	if err := param.Only(r, "refresh"); err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	pages.Show(s.Site, w, r, pages.Page[Overview]{
		Template: "overview.html", Section: "/", Title: "Overview", JSONPath: "/api/v1/overview",
		Live: true, Load: s.reader.Overview,
		Complete: func(o *Overview, f *pages.Frame) *Overview {
			s.completeOverview(o, f)
			f.Title = o.Title()
			return o
		},
	})
}
