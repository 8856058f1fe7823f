package admin

import (
	"context"
	"io"
	"net/http"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

// healthz reports that the process answers.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	writePlain(w, http.StatusOK, "ok")
}

// readyz reports whether this replica can start runs, or why not. The reason may name servers, so
// only known identities get it.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	if err := s.ready(r.Context()); err != nil {
		line := "not ready"
		if _, known := s.guard.Identify(r); known {
			line = words.OneLine(err.Error(), 300)
		}
		writePlain(w, http.StatusServiceUnavailable, line)
		return
	}
	writePlain(w, http.StatusOK, "ready")
}

func (s *Server) ready(ctx context.Context) error {
	if s.options.Ready == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	return s.options.Ready(ctx)
}

func writePlain(w http.ResponseWriter, status int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, line+"\n") // the client may be gone
}
