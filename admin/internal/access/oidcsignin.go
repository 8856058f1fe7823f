package access

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/holdfast-dev/holdfast/admin/internal/oidc"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// StartOIDC sends the browser to the provider. The values that prove the answer are in a cookie of
// this browser.
func (s SignIn) StartOIDC(w http.ResponseWriter, r *http.Request) {
	if err := param.Only(r, "next"); err != nil {
		s.guard.pages.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	o := s.guard.rules().accounts.oidc
	next := afterSignIn(r.URL.Query().Get("next"))
	if o == nil {
		s.show(w, r, http.StatusOK, SignInForm{Next: next})
		return
	}
	attempt := pendingSignIn{oidc.SignIn{State: rand.Text(), Nonce: rand.Text(),
		Verifier: oidc.NewVerifier()}, next}
	target, err := o.provider.SignInURL(r.Context(), attempt.SignIn)
	if err != nil {
		s.refuseOIDC(w, r, http.StatusServiceUnavailable, next, err)
		return
	}
	sealed, err := o.seal(o.pending, attempt, attemptLifetime)
	if err != nil {
		s.refuseOIDC(w, r, http.StatusInternalServerError, next, err)
		return
	}
	// The provider's answer comes from another site, so a strict cookie would be withheld.
	s.guard.setCookie(w, r, attemptSuffix, sealed, attemptLifetime, http.SameSiteLaxMode)
	http.Redirect(w, r, target, http.StatusSeeOther)
}

// FinishOIDC takes the provider's answer and signs the person in. A replica takes one answer for
// each attempt. The cookie of the attempt stays if the answer was not taken. At a limit, the
// browser can send the answer again. With another state, the cookie may belong to another tab.
func (s SignIn) FinishOIDC(w http.ResponseWriter, r *http.Request) {
	accounts := s.guard.rules().accounts
	o, query := accounts.oidc, r.URL.Query()
	if o == nil {
		s.show(w, r, http.StatusOK, SignInForm{Next: "/"})
		return
	}
	var attempt pendingSignIn
	known := o.unseal(o.pending, s.guard.Cookie(r, attemptSuffix), attemptLifetime, &attempt)
	if !known || subtle.ConstantTimeCompare([]byte(query.Get("state")),
		[]byte(attempt.State)) != 1 {
		s.refuseOIDC(w, r, http.StatusForbidden, "/", errForeignAnswer)
		return
	}
	next := afterSignIn(attempt.Next)
	limits := []limit{{"oidc:" + clientNetwork(clientOf(r, accounts.proxy)).String(),
		maxClientFailures}}
	leave, err := s.turnOfAnswer(r.Context(), limits)
	if err != nil {
		s.refuseOIDC(w, r, statusOfLimit(w, err), next, err)
		return
	}
	defer leave()
	s.guard.setCookie(w, r, attemptSuffix, "", 0, http.SameSiteLaxMode)
	if !s.guard.usedStates.use(attempt.State) {
		s.refuseOIDC(w, r, http.StatusForbidden, next, errUsedAnswer)
		return
	}
	signIn, role, err := s.redeem(r, attempt, query)
	if err == nil {
		var sealed string
		if sealed, err = o.seal(o.signIns, signIn, signInLifetime); err == nil {
			s.guard.log.Info().Str("user", signIn.Email).Str("role", string(role)).
				Stringer("client", clientOf(r, accounts.proxy)).Str("by", string(ByOIDC)).
				Str("request_id", SourceOf(r).RequestID).Msg("signed in to the admin page")
			s.guard.events.success(r, Identity{Name: signIn.Email, By: ByOIDC},
				storage.AuditSignIn)
			s.guard.SetCookie(w, r, oidcSuffix, sealed, signInLifetime)
			http.Redirect(w, r, next, http.StatusSeeOther)
			return
		}
	}
	var unavailable *oidc.UnavailableError
	if errors.As(err, &unavailable) {
		// an outage must not slow the sign-ins of the address
		s.refuseOIDC(w, r, http.StatusServiceUnavailable, next, err)
		return
	}
	s.refuseOIDC(w, r, http.StatusForbidden, next, errors.Join(err,
		s.guard.throttle.own.AddFailure(r.Context(), attemptsWindow, limits[0].key)))
}

// turnOfAnswer waits until an answer may be checked, which ends with leave. It returns a
// *throttledError, or errManyChecks if the turn did not come within signInTimeout.
func (s SignIn) turnOfAnswer(ctx context.Context, limits []limit) (leave func(), err error) {
	if left := s.guard.throttle.own.wait(limits); left > 0 {
		return nil, &throttledError{left} // without a place in the queue
	}
	ctx, cancel := context.WithTimeout(ctx, signInTimeout)
	defer cancel()
	if leave, err = s.guard.answers.enter(ctx); err != nil {
		return nil, errManyChecks
	}
	if left := s.guard.throttle.own.take(limits); left > 0 {
		leave()
		return nil, &throttledError{left}
	}
	return leave, nil
}

// statusOfLimit returns the status for an error of turnOfAnswer, and sets Retry-After.
func statusOfLimit(w http.ResponseWriter, err error) int {
	var throttled *throttledError
	if errors.As(err, &throttled) {
		retryAfter(w, throttled.left)
		return http.StatusTooManyRequests
	}
	retryAfter(w, busyDelay)
	return http.StatusServiceUnavailable
}

var (
	errUsedAnswer    = errors.New("the answer belongs to a sign-in that was finished before")
	errForeignAnswer = errors.New("the answer belongs to no sign-in of this browser")
	errNotAllowed    = errors.New("the person is not allowed")
)

// redeem returns the person of the provider's answer.
func (s SignIn) redeem(r *http.Request, attempt pendingSignIn,
	query url.Values) (oidcSignIn, Role, error) {
	accounts := s.guard.rules().accounts
	o := accounts.oidc
	if query.Get("code") == "" {
		return oidcSignIn{}, "", oidc.AnswerError(query.Get("error"))
	}
	user, err := o.provider.Redeem(r.Context(), attempt.SignIn, query.Get("code"))
	if err != nil {
		return oidcSignIn{}, "", err
	}
	groups := o.relevant(user.Groups)
	role, allowed := o.roleOf(user.Email, groups)
	if !allowed || accounts.takenForOIDC(user.Email) || !isUserName(user.Email) {
		return oidcSignIn{}, "", errNotAllowed
	}
	generation := s.guard.generations.of(r.Context(), user.Email, 0)
	return oidcSignIn{user.Email, groups, generation}, role, nil
}

// refuseOIDC shows the sign-in page with a text for an error, and logs the error.
func (s SignIn) refuseOIDC(w http.ResponseWriter, r *http.Request, status int, next string,
	err error) {
	client := clientOf(r, s.guard.rules().proxy)
	s.guard.refusals.warn().Err(err).Int("status", status).Stringer("client", client).
		Str("request_id", SourceOf(r).RequestID).Msg("admin sign-in by OpenID Connect was refused")
	s.guard.events.refusal(r, client, Identity{By: ByOIDC}, err)
	form := SignInForm{Next: next}
	var unavailable *oidc.UnavailableError
	var throttled *throttledError
	switch {
	case errors.As(err, &unavailable):
		form.ErrorText = providerTrouble
	case errors.As(err, &throttled):
		form.ErrorText = "Too many sign-ins failed from this address. Try again in a moment."
	case errors.Is(err, errManyChecks):
		form.ErrorText = busyText
	case errors.Is(err, errUsedAnswer):
		form.ErrorText = "This sign-in was finished before. Sign in again."
	case errors.Is(err, errForeignAnswer):
		form.ErrorText = "This sign-in was not started in this browser, or took too long. " +
			"Sign in again."
	case errors.Is(err, oidc.ErrEmail):
		form.ErrorText = "The provider has not verified your e-mail address."
	case errors.Is(err, errNotAllowed):
		form.ErrorText = "Your account may not use this page."
	default:
		form.ErrorText = "The sign-in at the provider failed."
	}
	s.show(w, r, status, form)
}

const providerTrouble = "The sign-in provider is unavailable. Try again in a moment."

// SignedOut leads the browser to the sign-out of the provider, if it has one. It is a page of its
// own, because the policy of pages lets forms lead only to this server.
func (s SignIn) SignedOut(w http.ResponseWriter, r *http.Request) {
	if o := s.guard.rules().accounts.oidc; o != nil {
		back := strings.TrimSuffix(o.RedirectURL, CallbackPath) + SignInPath
		if target := o.provider.SignOutURL(r.Context(), back); target != "" {
			w.Header().Set("Refresh", "0; url="+target)
		}
	}
	s.show(w, r, http.StatusOK, SignInForm{Next: "/"})
}
