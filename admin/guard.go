package admin

import (
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
)

// contentPolicy allows stylesheets, scripts, images, forms and requests of this server, and nothing
// else.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// permissionsPolicy denies the page features that it does not use.
const permissionsPolicy = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"

// transportSecurity has browsers use TLS for a year. It does not cover subdomains: they may be
// other services.
const transportSecurity = "max-age=31536000"

func secureHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		// The policy is not no-referrer: with it, browsers send forms with the origin null, which
		// without Sec-Fetch-Site looks like another site.
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", permissionsPolicy)
		if r.TLS != nil { // behind a proxy that ends TLS, the proxy says this
			h.Set("Strict-Transport-Security", transportSecurity)
		}
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// guardHost refuses unknown host names. Otherwise a web page could point a name of its own at this
// address and use it through the operator's browser. A literal address cannot be pointed elsewhere,
// so it is refused only on a server without users.
func (s *Server) guardHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := strings.ToLower(strings.TrimSuffix(hostOnly(r.Host), "."))
		switch {
		case isLoopback(host), slices.Contains(s.accessRules().hosts, host),
			!s.accessRules().accounts.open() && net.ParseIP(host) != nil:
			next.ServeHTTP(w, r)
		case s.accessRules().accounts.open():
			s.refuse(w, r, http.StatusMisdirectedRequest, "Without users this page is only shown "+
				"under the names localhost, 127.0.0.1 and [::1], and those in admin.hosts.")
		default:
			s.refuse(w, r, http.StatusMisdirectedRequest, "This page is not shown under this "+
				"name: if it should be, add the name to admin.hosts.")
		}
	})
}

// hostOnly returns a Host header without port and brackets.
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

// recoverPanics answers 500 with a text after a panic.
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
			s.refuse(w, r, http.StatusInternalServerError,
				"Internal error. The log of this replica has details.")
		}()
		next.ServeHTTP(w, r)
	})
}
