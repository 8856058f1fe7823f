package admin

import (
	"net/http"
	"strings"
)

// route is one path and what answers GET and HEAD of it.
type route struct {
	path   string
	handle http.HandlerFunc
}

func (s *Server) routes() []route {
	return []route{
		{"/{$}", s.overviewPage},
		{"/static/{file}", s.static},
		{"/api/v1/overview", s.overviewJSON},
		{"/api/v1/locks", s.locksJSON},
		{"/api/v1/jobs", s.jobsJSON},
		{"/api/v1/jobs/{name}", s.jobJSON},
		{"/api/v1/runs", s.runsJSON},
		{"/api/v1/runs/{id}", s.runJSON},
		{"/api/v1/replicas", s.replicasJSON},
		{"/api/v1/memcached", s.memcachedJSON},
	}
}

// Handler returns everything that the server answers, with its guards in
// front; it may be mounted elsewhere, and then the address and the users of
// Options still hold.
func (s *Server) Handler() http.Handler {
	inner := http.NewServeMux()
	for _, r := range s.routes() {
		inner.HandleFunc("GET "+r.path, r.handle)
		inner.HandleFunc(r.path, s.methodNotAllowed)
	}
	inner.HandleFunc("/", s.notFound)

	crossOrigin := http.NewCrossOriginProtection()
	crossOrigin.SetDenyHandler(http.HandlerFunc(s.crossOrigin))
	guarded := s.guardHost(crossOrigin.Handler(s.authenticate(inner)))

	outer := http.NewServeMux()
	for _, r := range []route{{"/healthz", s.healthz}, {"/readyz", s.readyz}} {
		outer.HandleFunc("GET "+r.path, r.handle)
		outer.HandleFunc(r.path, s.methodNotAllowed)
	}
	outer.Handle("/", guarded)
	return s.recoverPanics(secureHeaders(outer))
}

func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	s.refuse(w, r, http.StatusNotFound, "There is nothing at this address.")
}

func (s *Server) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Allow", "GET, HEAD")
	s.refuse(w, r, http.StatusMethodNotAllowed, "This address is only read: GET and HEAD are allowed.")
}

func (s *Server) crossOrigin(w http.ResponseWriter, r *http.Request) {
	s.refuse(w, r, http.StatusForbidden, "The request comes from a page of another site.")
}

// refuse answers with an error: JSON under /api/, a small page elsewhere.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, status int, text string) {
	if strings.HasPrefix(r.URL.Path, "/api/") {
		s.writeError(w, status, text)
		return
	}
	said := message{Title: http.StatusText(status), Status: status, Text: text, Replica: s.options.Replica}
	if status == http.StatusUnauthorized {
		said.Replica = "" // strangers learn no names
	}
	s.pages.write(w, s.log, status, "message.html", said)
}
