package admin

import (
	"context"
	"net/http"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
)

func (s clusterPages) overviewJSON(w http.ResponseWriter, r *http.Request) {
	if err := param.Only(r); err != nil {
		s.writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	o, status := s.overview(r.Context())
	s.writeJSON(w, status, o)
}

// overview returns the state of the cluster and the HTTP status.
func (s clusterPages) overview(ctx context.Context) (Overview, int) {
	var f Frame
	_, content, status, err := queryOrCached(s.Site, ctx, "/", &f, s.reader.Overview)
	if content == nil { // load returns no errors of the caller here
		content = new(Overview)
		*content = cluster.EmptyOverview()
		if err != nil {
			f.Error, status = storeTrouble(err), http.StatusServiceUnavailable
		}
	}
	f.ServedBy = s.local.ServedBy(ctx)
	return *s.completeOverview(content, &f), status
}

// completeOverview adds what only the server knows.
func (s clusterPages) completeOverview(o *Overview, f *Frame) *Overview {
	o.Stale, o.Error, o.ServedBy, o.Memcached, o.Actions = f.Stale, f.Error, f.ServedBy,
		s.local.Memcached(), f.Actions
	o.Problems = cluster.Problems(o)
	return o
}

func (s clusterPages) overviewPage(w http.ResponseWriter, r *http.Request) {
	if err := param.Only(r, "refresh"); err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	show(s.Site, w, r, page[Overview]{
		template: "overview.html", section: "/", title: "Overview", jsonPath: "/api/v1/overview",
		live: true, load: s.reader.Overview,
		complete: func(o *Overview, f *Frame) *Overview {
			s.completeOverview(o, f)
			f.Title = o.Title()
			return o
		},
	})
}
