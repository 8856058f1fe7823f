package admin

import (
	"net"
	"net/http"
	"runtime/debug"
	"strings"
)

// contentPolicy allows the page its own stylesheet and icon, and nothing else.
const contentPolicy = "default-src 'none'; style-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func secureHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// guardHost refuses names that are not loopback's while there are no users:
// otherwise any web page could point a name of its own at 127.0.0.1 and read
// everything through the operator's browser.
func (s *Server) guardHost(next http.Handler) http.Handler {
	if len(s.options.Users) > 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(hostOnly(r.Host)) {
			s.refuse(w, r, http.StatusMisdirectedRequest,
				"Without users this page is only shown under the names localhost, 127.0.0.1 and [::1].")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostOnly returns a Host header's name or address without port and brackets.
func hostOnly(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.Trim(hostport, "[]")
}

func isLoopback(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// recoverPanics answers 500 in words: the page is never blank.
func (s *Server) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if cause == http.ErrAbortHandler {
				panic(cause)
			}
			s.log.Error().Interface("panic", cause).Bytes("stack", debug.Stack()).
				Str("path", r.URL.Path).Msg("admin request panicked")
			s.refuse(w, r, http.StatusInternalServerError, "This request met a mistake in the program; its log says more.")
		}()
		next.ServeHTTP(w, r)
	})
}
