package access

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// Level is the proof of identity that a route requires.
type Level int

// The levels.
const (
	ForProbes     Level = iota // everybody, under any host name: load balancers use the address
	ForAnybody                 // everybody, also without sign-in
	ForIdentities              // everybody with a proof of identity
)

// ActionHeader is the header by which programs mark their actions. Neither a redirect nor an HTML
// form can add it.
const ActionHeader = "X-Holdfast-Action"

// Admit wraps a route in the check of its level.
func (g *Guard) Admit(level Level, next http.HandlerFunc) http.Handler {
	if level == ForProbes {
		return next
	}
	crossOrigin := http.NewCrossOriginProtection()
	crossOrigin.SetDenyHandler(http.HandlerFunc(g.refuseCrossOrigin))
	return g.guardHost(crossOrigin.Handler(g.guardActions(g.identified(level, next))))
}

// guardActions refuses actions on a server without users that neither come from its own pages nor
// have ActionHeader. Otherwise a service could redirect a request of a program on this machine,
// such as an http job, to an action. CrossOriginProtection has compared the header Origin with
// Host, unless there is a Sec-Fetch-Site.
func (g *Guard) guardActions(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site := r.Header.Get("Sec-Fetch-Site")
		switch {
		case isSafe(r.Method), !g.rules().accounts.open(), r.Header.Get(ActionHeader) == "1",
			site == "same-origin", site == "" && r.Header.Get("Origin") != "":
			next.ServeHTTP(w, r)
		default:
			g.pages.Refuse(w, r, http.StatusForbidden, "This server has no users. It accepts "+
				"actions from its own pages, or with the header "+ActionHeader+": 1.")
		}
	})
}

// isSafe reports whether requests with the method only read.
func isSafe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

func (g *Guard) refuseCrossOrigin(w http.ResponseWriter, r *http.Request) {
	g.pages.Refuse(w, r, http.StatusForbidden, "The request comes from a page of another site.")
}

func (g *Guard) identified(level Level, next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		identity, err := g.rules().accounts.identify(r)
		var refused *refusal
		switch {
		case level == ForAnybody:
		case errors.As(err, &refused):
			client := clientOf(r, g.rules().proxy)
			g.refusals.warn().Stringer("client", client).Err(refused).
				Str("request_id", SourceOf(r).RequestID).Msg("admin request was refused")
			g.events.refusal(r, client, identity, refused)
			if refused.left > 0 {
				retryAfter(w, refused.left)
			}
			askBearer(w, refused.status)
			g.pages.Refuse(w, r, refused.status, refused.text)
			return
		case identity.unauthenticated():
			g.requireSignIn(w, r)
			return
		}
		next(w, withIdentity(r, identity, g.rules().authorizer))
	})
}

// requireSignIn redirects browsers to the sign-in page, and answers 401 to API clients.
func (g *Guard) requireSignIn(w http.ResponseWriter, r *http.Request) {
	reading := r.Method == http.MethodGet || r.Method == http.MethodHead
	rules := g.rules()
	switch program := rules.accounts.authenticate != nil; {
	case program && rules.signInURL != "" && reading && !ForMachines(r):
		g.signInAtProgram(w, r, rules.signInURL)
		return
	case program:
		g.pages.Refuse(w, r, http.StatusUnauthorized, "Sign in to the service first.")
		return
	case reading && !ForMachines(r):
		http.Redirect(w, r, SignInPath+"?next="+url.QueryEscape(afterSignIn(r.URL.RequestURI())),
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
