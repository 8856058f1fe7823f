package access

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// Level is the permission that a route requires.
type Level int

// The levels.
const (
	ForProbes    Level = iota // everybody, under any host name: load balancers use the address
	ForAnybody                // everybody, also without sign-in
	ForViewers                // every identity except scrapers
	ForScrapers               // every identity
	ForOperators              // identities that may act
)

// Admit wraps a route in the check of its level.
func (g *Guard) Admit(who Level, next http.HandlerFunc) http.Handler {
	if who == ForProbes {
		return next
	}
	crossOrigin := http.NewCrossOriginProtection()
	crossOrigin.SetDenyHandler(http.HandlerFunc(g.refuseCrossOrigin))
	return g.guardHost(crossOrigin.Handler(g.identified(who, next)))
}

func (g *Guard) refuseCrossOrigin(w http.ResponseWriter, r *http.Request) {
	g.pages.Refuse(w, r, http.StatusForbidden, "The request comes from a page of another site.")
}

func (g *Guard) identified(who Level, next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		identity, err := g.rules().accounts.identify(r)
		var refused *refusal
		switch {
		case who == ForAnybody:
		case errors.As(err, &refused):
			g.refusals.warn().Stringer("client", clientOf(r, g.rules().proxy)).Err(refused).
				Msg("admin request was refused")
			if refused.left > 0 {
				retryAfter(w, refused.left)
			}
			askBearer(w, refused.status)
			g.pages.Refuse(w, r, refused.status, refused.text)
			return
		case identity.unauthenticated():
			g.requireSignIn(w, r)
			return
		case identity.Role == Scraper && who != ForScrapers:
			g.pages.Refuse(w, r, http.StatusForbidden, "This token is valid only for the metrics.")
			return
		case who == ForOperators && identity.Role != Operator:
			g.pages.Refuse(w, r, http.StatusForbidden,
				"This action requires the role operator.")
			return
		}
		next(w, withIdentity(r, identity))
	})
}

// requireSignIn redirects browsers to the sign-in page, and answers 401 to API clients.
func (g *Guard) requireSignIn(w http.ResponseWriter, r *http.Request) {
	reading := r.Method == http.MethodGet || r.Method == http.MethodHead
	if reading && !ForMachines(r) {
		http.Redirect(w, r, "/login?next="+url.QueryEscape(localPath(r.URL.RequestURI())),
			http.StatusSeeOther)
		return
	}
	askBearer(w, http.StatusUnauthorized)
	g.pages.Refuse(w, r, http.StatusUnauthorized,
		"Sign in first, or send a token as Authorization: Bearer.")
}

func askBearer(w http.ResponseWriter, status int) {
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="Holdfast"`)
	}
}

// The addresses that machines ask beside the API.
const (
	MetricsPath = "/metrics"
	HealthPath  = "/healthz"
	ReadyPath   = "/readyz"
)

// ForMachines reports whether the path belongs to the API or the metrics.
func ForMachines(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Path == MetricsPath
}
