package admin

import "net/http"

const metricsPath = "/metrics"

// metrics answers Prometheus. Names of jobs and resources are in it, so it is not
// for strangers.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	if s.options.Metrics == nil {
		s.notFound(w, r)
		return
	}
	s.options.Metrics.ServeHTTP(w, r)
}
