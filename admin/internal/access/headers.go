package access

import "net/http"

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

// WithHeaders adds the headers that protect pages to each answer. OwnHost reports whether the
// server is the only one of its host name, so that it may decide about TLS.
func WithHeaders(next http.Handler, ownHost bool) http.Handler {
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
		if ownHost && r.TLS != nil { // behind a proxy that ends TLS, the proxy says this
			h.Set("Strict-Transport-Security", transportSecurity)
		}
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}
