package admin

import (
	"context"
	"io"
	"net/http"
	"strings"
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
		if identity, errIdentity := s.accessRules().accounts.identify(r); errIdentity == nil &&
			!identity.unauthenticated() {
			line = oneLine(err.Error(), 300)
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

// oneLine returns s on one line, cut to at most n characters.
func oneLine(s string, n int) string { return cut(strings.Join(strings.Fields(s), " "), n) }

// cut returns s, or its first n characters and an ellipsis.
func cut(s string, n int) string {
	count := 0
	for i := range s {
		if count++; count > n {
			return s[:i] + "…"
		}
	}
	return s
}
