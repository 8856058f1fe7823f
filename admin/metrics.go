package admin

import "net/http"

// metrics serves Prometheus. It contains names of jobs and resources, so it requires an identity.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	if s.options.Metrics == nil {
		s.notFound(w, r)
		return
	}
	s.options.Metrics.ServeHTTP(w, r)
}
