package admin

import (
	"net/http"
	"strings"

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
	if _, known := s.Guard.Identify(r); known && s.Local.Databases != nil {
		text += databaseLines(s.Local.Databases())
	}
	pages.WritePlain(w, http.StatusOK, text)
}

// databaseLines returns a line for each database. A replica is ready also while one of them is
// unavailable, because only its jobs do not start.
func databaseLines(databases []JobDatabase) string {
	var lines strings.Builder
	for _, d := range databases {
		lines.WriteString("\ndatabase " + d.Name + ": ")
		switch {
		case d.Err != nil:
			lines.WriteString("unavailable: " + words.OneLine(d.Err.Error(), 300))
		case d.Since.IsZero():
			lines.WriteString("unknown")
		default:
			lines.WriteString("available")
		}
	}
	return lines.String()
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
