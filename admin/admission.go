package admin

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// access is who may use a route.
type access int

const (
	forProbes    access = iota // anybody, and under any name: load balancers ask by address
	forAnybody                 // also strangers
	forViewers                 // everybody who is known, but scrapers
	forScrapers                // everybody who is known
	forOperators               // who may act
)

// admit puts in front of a route what keeps others out.
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
			s.refuse(w, r, http.StatusForbidden, "This token is for the metrics alone.")
			return
		case who == forOperators && identity.Role != Operator:
			s.refuse(w, r, http.StatusForbidden,
				"You may read, but not act: that takes the role operator.")
			return
		}
		next(w, withIdentity(r, identity))
	})
}

// requireSignIn sends people to the sign-in page, and tells machines what to send.
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

// forMachines reports whether an address is the API's, or that of the metrics.
func forMachines(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Path == metricsPath
}
