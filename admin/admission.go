package admin

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// access is the permission that a route requires.
type access int

const (
	forProbes    access = iota // everybody, under any host name: load balancers use the address
	forAnybody                 // everybody, also without sign-in
	forViewers                 // every identity except scrapers
	forScrapers                // every identity
	forOperators               // identities that may act
)

// admit wraps a route in the check of its access.
func (s *Server) admit(who access, next http.HandlerFunc) http.Handler {
	if who == forProbes {
		return next
	}
	crossOrigin := http.NewCrossOriginProtection()
	crossOrigin.SetDenyHandler(http.HandlerFunc(s.crossOrigin))
	return s.guardHost(crossOrigin.Handler(s.identified(who, next)))
}

func (s *Server) identified(who access, next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		identity, err := s.accessRules().accounts.identify(r)
		var refused *refusal
		switch {
		case who == forAnybody:
		case errors.As(err, &refused):
			s.log.Warn().Stringer("client", clientOf(r, s.accessRules().proxy)).Err(err).
				Msg("admin request was refused")
			s.askBearer(w, r, refused.status)
			s.refuse(w, r, refused.status, refused.text)
			return
		case identity.unauthenticated():
			s.requireSignIn(w, r)
			return
		case identity.Role == Scraper && who != forScrapers:
			s.refuse(w, r, http.StatusForbidden, "This token is valid only for the metrics.")
			return
		case who == forOperators && identity.Role != Operator:
			s.refuse(w, r, http.StatusForbidden,
				"This action requires the role operator.")
			return
		}
		next(w, withIdentity(r, identity))
	})
}

// requireSignIn redirects browsers to the sign-in page, and answers 401 to API clients.
func (s *Server) requireSignIn(w http.ResponseWriter, r *http.Request) {
	reading := r.Method == http.MethodGet || r.Method == http.MethodHead
	if reading && !forMachines(r) {
		http.Redirect(w, r, "/login?next="+url.QueryEscape(localPath(r.URL.RequestURI())),
			http.StatusSeeOther)
		return
	}
	s.askBearer(w, r, http.StatusUnauthorized)
	s.refuse(w, r, http.StatusUnauthorized,
		"Sign in first, or send a token as Authorization: Bearer.")
}

func (s *Server) askBearer(w http.ResponseWriter, _ *http.Request, status int) {
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="Holdfast"`)
	}
}

// forMachines reports whether the path belongs to the API or the metrics.
func forMachines(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Path == metricsPath
}
