package admin

import (
	"net/http"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

// healthz reports that the process answers.
func (s probes) healthz(w http.ResponseWriter, _ *http.Request) {
	writePlain(w, http.StatusOK, "ok")
}

// readyz reports whether this replica can start runs, or why not. The reason may name servers, so
// only known identities get it.
func (s probes) readyz(w http.ResponseWriter, r *http.Request) {
	if err := s.local.CheckReady(r.Context()); err != nil {
		line := "not ready"
		if _, known := s.guard.Identify(r); known {
			line = words.OneLine(err.Error(), 300)
		}
		writePlain(w, http.StatusServiceUnavailable, line)
		return
	}
	writePlain(w, http.StatusOK, "ready")
}

// metrics serves Prometheus. It contains names of jobs and resources, so it requires an identity.
func (s probes) metrics(w http.ResponseWriter, r *http.Request) {
	if s.options.Metrics == nil {
		s.notFound(w, r)
		return
	}
	s.options.Metrics.ServeHTTP(w, r)
}

// static serves a file with a lifetime of a year. A name with another hash comes from a replica of
// another version behind the same load balancer. It gets this version's file without caching, so
// that the page has a style.
func (s probes) static(w http.ResponseWriter, r *http.Request) {
	asked := r.PathValue("file")
	if file, ok := s.pages.assets.byName[plainName(asked)]; ok {
		if asked == file.hashed {
			w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
		}
		writeBody(w, http.StatusOK, file.contentType, file.body)
		return
	}
	s.notFound(w, r)
}

// icon serves the icon that browsers request beside answers that name none, such as JSON.
func (s probes) icon(w http.ResponseWriter, _ *http.Request) {
	file := s.pages.assets.byName["icon.svg"]
	writeBody(w, http.StatusOK, file.contentType, file.body)
}

// openAPIJSON serves the description of the API, in OpenAPI 3.1.
func (s probes) openAPIJSON(w http.ResponseWriter, r *http.Request) {
	if err := param.Only(r); err != nil {
		s.writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	writeBody(w, http.StatusOK, "application/json", openAPI)
}
