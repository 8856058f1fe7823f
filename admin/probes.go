package admin

import (
	"net/http"

	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

// healthz reports that the process answers.
func (s probes) healthz(w http.ResponseWriter, _ *http.Request) {
	pages.WritePlain(w, http.StatusOK, "ok")
}

// readyz reports whether this replica can start runs, or why not. The reason may name servers, so
// only known identities get it.
func (s probes) readyz(w http.ResponseWriter, r *http.Request) {
	if err := s.Local.CheckReady(r.Context()); err != nil {
		line := "not ready"
		if _, known := s.Guard.Identify(r); known {
			line = words.OneLine(err.Error(), 300)
		}
		pages.WritePlain(w, http.StatusServiceUnavailable, line)
		return
	}
	pages.WritePlain(w, http.StatusOK, "ready")
}

// metrics serves Prometheus. It contains names of jobs and resources, so it requires an identity.
func (s probes) metrics(w http.ResponseWriter, r *http.Request) {
	if s.options.Metrics == nil {
		s.NotFound(w, r)
		return
	}
	s.options.Metrics.ServeHTTP(w, r)
}

// openAPIJSON serves the description of the API, in OpenAPI 3.1.
func (s probes) openAPIJSON(w http.ResponseWriter, r *http.Request) {
	if err := param.Only(r); err != nil {
		s.WriteError(w, http.StatusBadRequest, err.Error())
		return
	}
	pages.WriteBody(w, http.StatusOK, "application/json", openAPIAt(s.Prefix))
}
