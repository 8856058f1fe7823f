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

// readyz reports whether this replica can start runs, or why not, and the databases of jobs. Only
// known identities get reasons and databases, because they may name servers.
func (s probes) readyz(w http.ResponseWriter, r *http.Request) {
	if err := s.Local.CheckReady(r.Context()); err != nil {
		line := "not ready"
		if _, known := s.Guard.Identify(r); known {
			line = words.OneLine(err.Error(), 300)
		}
		pages.WritePlain(w, http.StatusServiceUnavailable, line)
		return
	}
	text := "ready"
	if _, known := s.Guard.Identify(r); known {
		text += s.databaseLines()
	}
	pages.WritePlain(w, http.StatusOK, text)
}

// databaseLines returns a line for each database of jobs. A replica is ready also while one of them
// is unavailable, because only its jobs do not start.
func (s probes) databaseLines() (lines string) {
	view := s.Local.JobDatabases()
	if view == nil {
		return ""
	}
	for _, d := range view.Databases {
		lines += "\ndatabase " + d.Name + ": " + d.State()
		if d.Err != nil {
			lines += ": " + d.Reason()
		}
	}
	return lines
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
