package admin

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
)

// signInView is the sign-in page.
type signInView struct {
	Frame
	Next      string // redirect after the sign-in
	Name      string // as typed
	ErrorText string // why the last sign-in failed
	Passwords bool   // there are users with passwords
}

// signInPage shows the form. A link on another site leads here even for signed-in users, because
// the browser withholds the cookie on the first request. In that case the page reloads itself, and
// the second request has the cookie.
func (s *Server) signInPage(w http.ResponseWriter, r *http.Request) {
	if err := param.Only(r, "next"); err != nil {
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	next := localPath(r.URL.Query().Get("next"))
	if !identityOf(r).unauthenticated() {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		w.Header().Set("Refresh", "0")
	}
	s.showSignIn(w, http.StatusOK, signInView{Next: next})
}

func (s *Server) showSignIn(w http.ResponseWriter, status int, view signInView) {
	view.Title, view.Passwords = "Sign in", s.accessRules().users > 0
	s.pages.write(w, s.log, status, "signin.html", view)
}

func (s *Server) signIn(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		s.refuse(w, r, http.StatusBadRequest, "The form could not be read, or is too large.")
		return
	}
	name, password := r.PostForm.Get("user"), r.PostForm.Get("password")
	view := signInView{Next: localPath(r.PostForm.Get("next")), Name: words.Cut(name, 200)}
	if s.accessRules().users == 0 {
		s.showSignIn(w, http.StatusForbidden, view)
		return
	}
	if s.withoutTLS(r) {
		view.ErrorText =
			"Your browser reaches this page without TLS and would not keep a sign-in. " +
				"Use https, or a name of loopback. The password you typed went over the " +
				"network in the clear."
		s.showSignIn(w, http.StatusForbidden, view)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	client := clientOf(r, s.accessRules().proxy)
	err := s.accessRules().passwordChecker.check(ctx, client, name, password)
	if err == nil {
		s.log.Info().Str("user", name).Stringer("client", client).Msg("signed in to the admin page")
		s.setCookie(w, r, s.accessRules().
			accounts.signer.sign(name, s.accessRules().accounts.users[name].text,
			time.Now().Add(signInLifetime)))
		http.Redirect(w, r, view.Next, http.StatusSeeOther)
		return
	}
	status := s.signInTrouble(w, err, &view)
	s.log.Warn().Str("user", s.knownName(name)).Stringer("client", client).Int("status", status).
		Msg("admin sign-in was refused")
	s.showSignIn(w, status, view)
}

// signInTrouble sets the text for an error and returns its status.
func (s *Server) signInTrouble(w http.ResponseWriter, err error, view *signInView) int {
	var throttled *throttledError
	switch {
	case errors.Is(err, errWrongPassword):
		view.ErrorText = "The user or the password is wrong."
		return http.StatusForbidden
	case errors.As(err, &throttled):
		seconds := int(math.Ceil(throttled.left.Seconds()))
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
		view.ErrorText =
			"Too many sign-ins failed for this user or from this address. Try again in " +
				words.Span(time.Duration(seconds)*time.Second) + "."
		return http.StatusTooManyRequests
	}
	w.Header().Set("Retry-After", "5")
	view.ErrorText = "Too many passwords are being checked. Try again in a moment."
	return http.StatusServiceUnavailable
}

// knownName returns the name if it is a user's, because an unknown name may be a password in the
// wrong field.
func (s *Server) knownName(name string) string {
	if _, known := s.accessRules().accounts.users[name]; known {
		return name
	}
	return "(unknown)"
}

// withoutTLS reports whether the browser uses plain HTTP to reach a name beyond loopback.
func (s *Server) withoutTLS(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Origin"), "http://") &&
		!overTLS(r, s.accessRules().proxy) &&
		!isLoopback(hostOnly(r.Host))
}

// signOut deletes the cookie. The signed value stays valid until it expires, because the server
// stores no sign-ins.
func (s *Server) signOut(w http.ResponseWriter, r *http.Request) {
	s.setCookie(w, r, "")
	s.log.Info().Str("user", identityOf(r).Name).Msg("signed out of the admin page")
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// localPath returns an address on this server to continue at, or "/" for any other address, so that
// a link to the sign-in page can't redirect elsewhere.
func localPath(next string) string {
	const longest = 1000
	target, err := url.Parse(next)
	switch {
	case err != nil, len(next) > longest, target.Scheme != "", target.Host != "",
		target.User != nil,
		!strings.HasPrefix(next, "/"), strings.HasPrefix(next, "//"), strings.Contains(next, `\`),
		strings.ContainsFunc(next, unicode.IsControl), target.Path == "/login",
		target.Path == "/logout":
		return "/"
	}
	return target.String()
}
