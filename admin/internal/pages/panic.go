package pages

import (
	"net/http"
	"runtime/debug"

	"github.com/holdfast-dev/holdfast/admin/internal/access"
)

// RecoverPanics answers 500 with a text after a panic.
func (s *Site) RecoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if cause == http.ErrAbortHandler {
				panic(cause)
			}
			s.Log.Error().Interface("panic", cause).Bytes("stack", debug.Stack()).
				Str("path", r.URL.Path).Str("request_id", access.SourceOf(r).RequestID).
				Msg("admin request panicked")
			s.Refuse(w, r, http.StatusInternalServerError,
				"Internal error. The log of this replica has details.")
		}()
		next.ServeHTTP(w, r)
	})
}
