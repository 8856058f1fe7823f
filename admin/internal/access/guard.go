package access

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/admin/internal/mount"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Pages answers requests that the guard does not admit.
type Pages interface {
	// Refuse answers with an error.
	Refuse(w http.ResponseWriter, r *http.Request, status int, text string)
	// SignIn answers with the form to sign in.
	SignIn(w http.ResponseWriter, r *http.Request, status int, form SignInForm)
}

// Guard identifies the senders of requests and admits those that the policy allows. It is safe for
// concurrent use.
type Guard struct {
	current     atomic.Pointer[rules]
	throttle    *throttle // of sign-ins
	answers     turns     // of answers of a provider
	usedStates  usedStates
	generations *generations
	pages       Pages
	log         zerolog.Logger
	refusals    *refusalLog
	events      *eventLog
	prefix      mount.Prefix
}

// Shared is what all replicas know of sign-ins.
type Shared struct {
	LoginAttempts storage.LoginAttempts // counts failed sign-ins; nil: the guard counts its own
	SignOuts      storage.SignOuts      // nil: a sign-out is valid for this replica
	// Events has the audit log, for events of Replica; nil: they are only logged.
	Events  storage.AuditWriter
	Replica string
}

// NewGuard expects a policy that Policy.Check accepted.
func NewGuard(p Policy, prefix mount.Prefix, shared Shared, pages Pages,
	log zerolog.Logger) (*Guard, error) {
	g := &Guard{pages: pages, prefix: prefix, log: log, refusals: &refusalLog{log: log},
		answers: newTurns(),
		throttle: &throttle{own: newAttemptCounts(), tokens: newAttemptCounts(),
			shared: shared.LoginAttempts, log: log},
		generations: newGenerations(shared.SignOuts, log),
		events:      newEventLog(shared.Events, shared.Replica, log)}
	return g, g.Set(p)
}

func (g *Guard) rules() *rules { return g.current.Load() }

// Try returns the error that Set would return for this policy, or nil.
func (g *Guard) Try(p Policy) error {
	_, err := newRules(p, g.prefix, g.throttle, g.generations)
	return err
}

// Set replaces the policy from the next request on. If it returns an error, nothing has changed.
// Users who were removed or have another password must sign in again. Counts of failed sign-ins go
// on.
func (g *Guard) Set(p Policy) error {
	next, err := newRules(p, g.prefix, g.throttle, g.generations)
	if err != nil {
		return err
	}
	if before := g.current.Swap(next); before != nil {
		before.close()
	}
	return nil
}

// Close ends requests to the provider of OpenID Connect that the guard itself sends, and waits for
// them. It is called when no more requests are served.
func (g *Guard) Close() { g.rules().close() }

// Identify returns the sender of a request, and false if the request has no valid proof of
// identity.
func (g *Guard) Identify(r *http.Request) (Identity, bool) {
	identity, err := g.rules().accounts.identify(r)
	return identity, err == nil && !identity.unauthenticated()
}

// Authorize returns nil if the sender of a request has the permission by the current policy. It is
// for long requests, which an earlier policy admitted.
func (g *Guard) Authorize(r *http.Request, p permission.Permission, t permission.Target) error {
	rules := g.rules()
	identity, err := rules.accounts.identify(r)
	if err != nil {
		return err
	}
	if identity.unauthenticated() {
		return errSignedOut
	}
	ctx := permission.With(r.Context(), identity.subject(rules.authorizer))
	return permission.Require(ctx, p, t)
}

var errSignedOut = errors.New("the sender is not signed in")

// ClientOf returns the address by which limits count the client: its network for IPv6.
func (g *Guard) ClientOf(r *http.Request) netip.Addr {
	return clientNetwork(clientOf(r, g.rules().proxy))
}

// SetCookie stores a value in the browser for lifetime, or deletes it if the value is "". The
// suffix distinguishes the cookies of the server; that of the sign-in has none.
func (g *Guard) SetCookie(w http.ResponseWriter, r *http.Request, suffix, value string,
	lifetime time.Duration) {
	g.setCookie(w, r, suffix, value, lifetime, http.SameSiteStrictMode)
}

func (g *Guard) setCookie(w http.ResponseWriter, r *http.Request, suffix, value string,
	lifetime time.Duration, sameSite http.SameSite) {
	name := g.rules().accounts.cookies.of(r)
	cookie := &http.Cookie{
		Name: name + suffix, Value: value, Path: g.prefix.Path(), MaxAge: int(lifetime.Seconds()),
		HttpOnly: true, Secure: name != plainCookie, SameSite: sameSite,
	}
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

// Cookie returns the value of a cookie that SetCookie stored, or "".
func (g *Guard) Cookie(r *http.Request, suffix string) string {
	cookie, err := r.Cookie(g.rules().accounts.cookies.of(r) + suffix)
	if err != nil {
		return ""
	}
	return cookie.Value
}

// guardHost refuses unknown host names. Otherwise a web page could point a name of its own at this
// address and use it through the operator's browser. A literal address cannot be pointed elsewhere,
// so it is refused only on a server without users. The names of a server with an authentication of
// its own are its own matter.
func (g *Guard) guardHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rules := g.rules()
		host := strings.ToLower(strings.TrimSuffix(hostOnly(r.Host), "."))
		switch {
		case rules.accounts.authenticate != nil, IsLoopback(host),
			slices.Contains(rules.hosts, host),
			!rules.accounts.open() && net.ParseIP(host) != nil:
			next.ServeHTTP(w, r)
		case rules.accounts.open():
			g.pages.Refuse(w, r, http.StatusMisdirectedRequest,
				"Without users this page is only shown under the names localhost, 127.0.0.1 "+
					"and [::1], and those in admin.hosts.")
		default:
			g.pages.Refuse(w, r, http.StatusMisdirectedRequest,
				"This page is not shown under this name: if it should be, add the name to "+
					"admin.hosts.")
		}
	})
}
