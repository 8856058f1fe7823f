package access

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// signInTimeout bounds the wait for a turn to be checked.
const signInTimeout = 3 * time.Second

// The addresses of the form to sign in, and of the sign-out.
const (
	SignInPath  = "/login"
	SignOutPath = "/logout"
)

// SignInForm is the form to sign in.
type SignInForm struct {
	Next      string // redirect after the sign-in
	Name      string // as typed
	ErrorText string // why the last sign-in failed
	Wrong     bool   // because of the password or the name
	Passwords bool   // there are users with passwords
	OIDC      bool   // a provider of OpenID Connect signs people in
}

// SignIn serves the sign-in page.
type SignIn struct{ guard *Guard }

// NewSignIn returns the sign-in of the users of a guard.
func NewSignIn(g *Guard) SignIn { return SignIn{g} }

// ShowForm shows the form. A link on another site leads here even for signed-in users, because the
// browser withholds the cookie on the first request. In that case the page reloads itself, and the
// second request has the cookie.
func (s SignIn) ShowForm(w http.ResponseWriter, r *http.Request) {
	if err := param.Only(r, "next"); err != nil {
		s.guard.pages.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	next := afterSignIn(r.URL.Query().Get("next"))
	if !IdentityOf(r).unauthenticated() {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		w.Header().Set("Refresh", "0")
	}
	s.show(w, r, http.StatusOK, SignInForm{Next: next})
}

func (s SignIn) show(w http.ResponseWriter, r *http.Request, status int, form SignInForm) {
	rules := s.guard.rules()
	form.Passwords, form.OIDC = rules.users > 0, rules.accounts.oidc != nil
	if form.OIDC && form.ErrorText == "" && rules.accounts.oidc.provider.Ready() != nil {
		form.ErrorText = providerTrouble
	}
	s.guard.pages.SignIn(w, r, status, form)
}

// Submit checks the password and signs the user in.
func (s SignIn) Submit(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		s.guard.pages.Refuse(w, r, http.StatusBadRequest,
			"The form could not be read, or is too large.")
		return
	}
	rules := s.guard.rules()
	name, password := r.PostForm.Get("user"), r.PostForm.Get("password")
	form := SignInForm{Next: afterSignIn(r.PostForm.Get("next")), Name: words.Cut(name, 200)}
	if rules.users == 0 {
		s.show(w, r, http.StatusForbidden, form)
		return
	}
	if s.withoutTLS(r) {
		form.ErrorText =
			"Your browser reaches this page without TLS and would not keep a sign-in. " +
				"Use https, or a name of loopback. The password you typed went over the " +
				"network in the clear."
		s.show(w, r, http.StatusForbidden, form)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), signInTimeout)
	defer cancel()
	client := clientOf(r, rules.proxy)
	browser := s.browserOf(r, name)
	err := rules.passwordChecker.check(ctx, attempt{name, client, browser}, password)
	if err == nil {
		s.guard.log.Info().Str("user", name).Stringer("client", client).
			Str("request_id", SourceOf(r).RequestID).Msg("signed in to the admin page")
		s.guard.events.success(r, Identity{Name: name, By: ByPassword}, storage.AuditSignIn)
		generation := s.guard.generations.of(r.Context(), name, 0)
		s.guard.SetCookie(w, r, "", rules.accounts.signSignIn(name, generation,
			time.Now().Add(signInLifetime)), signInLifetime)
		s.rememberBrowser(w, r, name, browser)
		http.Redirect(w, r, form.Next, http.StatusSeeOther)
		return
	}
	status := s.trouble(w, err, &form)
	s.guard.refusals.warn().Str("user", s.knownName(name)).Stringer("client", client).
		Int("status", status).Str("request_id", SourceOf(r).RequestID).
		Msg("admin sign-in was refused")
	s.guard.events.refusal(r, client, Identity{Name: s.knownName(name), By: ByPassword}, err)
	s.show(w, r, status, form)
}

// trouble sets the text for an error and returns its status.
func (s SignIn) trouble(w http.ResponseWriter, err error, form *SignInForm) int {
	var throttled *throttledError
	switch {
	case errors.Is(err, errWrongPassword):
		form.ErrorText, form.Wrong = "The user or the password is wrong.", true
		return http.StatusForbidden
	case errors.As(err, &throttled):
		seconds := retryAfter(w, throttled.left)
		form.ErrorText =
			"Too many sign-ins failed for this user or from this address. Try again in " +
				words.Span(time.Duration(seconds)*time.Second) + "."
		return http.StatusTooManyRequests
	}
	retryAfter(w, busyDelay)
	form.ErrorText = busyText
	return http.StatusServiceUnavailable
}

// A client is told to come back after busyDelay if too many sign-ins are being checked.
const (
	busyDelay = 5 * time.Second
	busyText  = "Too many sign-ins are being checked. Try again in a moment."
)

// retryAfter sets the header, and returns its seconds.
func retryAfter(w http.ResponseWriter, left time.Duration) int {
	seconds := int(math.Ceil(left.Seconds()))
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	return seconds
}

// knownName returns the name if it is a user's, because an unknown name may be a password in the
// wrong field.
func (s SignIn) knownName(name string) string {
	if _, known := s.guard.rules().accounts.users[name]; known {
		return name
	}
	return unknownName
}

// withoutTLS reports whether the browser uses plain HTTP to reach a name beyond loopback. Behind a
// proxy that is not configured as trusted, only the origin tells of TLS, so a request without one
// counts as plain HTTP.
func (s SignIn) withoutTLS(r *http.Request) bool {
	return !strings.HasPrefix(r.Header.Get("Origin"), "https://") &&
		!overTLS(r, s.guard.rules().proxy) &&
		!IsLoopback(hostOnly(r.Host))
}

// SignOut deletes the cookies and ends all sign-ins of their users, in every browser. A browser can
// have two: one with a password, and one of a provider.
func (s SignIn) SignOut(w http.ResponseWriter, r *http.Request) {
	s.guard.SetCookie(w, r, "", "", 0)
	accounts := s.guard.rules().accounts
	if len(r.CookiesNamed(accounts.cookies.of(r)+oidcSuffix)) > 0 {
		s.guard.SetCookie(w, r, oidcSuffix, "", 0)
	}
	leadTo := SignInPath
	for _, signIn := range accounts.signIns(r) {
		if signIn.By == ByOIDC {
			leadTo = SignedOutPath
		}
		recorded := s.guard.generations.end(r.Context(), signIn.Name, signIn.generation)
		s.guard.log.Info().Str("user", signIn.Name).Bool("recorded", recorded).
			Str("request_id", SourceOf(r).RequestID).Msg("signed out of the admin page")
		s.guard.events.success(r, signIn, storage.AuditSignOut)
	}
	http.Redirect(w, r, leadTo, http.StatusSeeOther)
}

// LocalPath returns an address on this server to continue at, or "/" for any other address, so that
// a link to the sign-in page can't redirect elsewhere.
func LocalPath(next string) string {
	const longest = 8 << 10 // more than the address of a bulk action
	target, err := url.Parse(next)
	switch {
	case err != nil, len(next) > longest, target.Scheme != "", target.Host != "",
		target.User != nil,
		!strings.HasPrefix(next, "/"), strings.HasPrefix(next, "//"), strings.Contains(next, `\`),
		strings.ContainsFunc(next, unicode.IsControl), target.Path == SignInPath,
		target.Path == SignOutPath, strings.HasPrefix(target.Path, StartPath):
		return "/"
	}
	return target.String()
}

// afterSignIn is LocalPath for the address after a sign-in, which the sign-in page and a cookie
// must be able to carry.
func afterSignIn(next string) string {
	const longest = 1000
	if len(next) > longest {
		return "/"
	}
	return LocalPath(next)
}
