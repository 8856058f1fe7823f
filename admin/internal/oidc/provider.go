package oidc

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/holdfast-dev/holdfast/internal/egress"
)

const (
	// requestTimeout bounds each request to the provider.
	requestTimeout = 5 * time.Second
	// discoveryInterval is the least time from the end of an attempt to read the provider's
	// document to the next one.
	discoveryInterval = 5 * time.Second
)

// Settings name a provider and this client of it.
type Settings struct {
	Issuer       string // URL, exactly as the provider names itself
	ClientID     string
	ClientSecret string
	RedirectURL  string   // where the provider sends browsers back
	Scopes       []string // beside openid
	GroupsClaim  string   // the claim with the groups of the user; "": none
}

// User is a person whom the provider has signed in.
type User struct {
	Email  string // verified by the provider
	Groups []string
}

// ErrEmail is the error of a sign-in whose token has no e-mail address, or an unverified one.
var ErrEmail = errors.New("the provider has not verified an e-mail address of the user")

var errClosed = errors.New("the replica is shutting down")

// UnavailableError reports a provider that does not answer, or whose answer says nothing about the
// person who signs in, such as a server error.
type UnavailableError struct{ cause error }

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("OpenID Connect provider: %v", e.cause)
}

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.cause }

// Provider is one provider. It reads the provider's document when it is first needed, and again
// until that succeeds. It is safe for concurrent use.
type Provider struct {
	settings Settings
	client   *http.Client

	ctx     context.Context // of the goroutine that reads the document; ends with stop
	stop    context.CancelFunc
	reading sync.WaitGroup

	mu         sync.Mutex
	discovered *discovery    // nil: not yet
	active     chan struct{} // closed at the end of the current attempt to read; nil: none
	last       time.Time     // the end of the last attempt
	err        error         // of the last attempt
	closed     bool          // no further attempt starts
}

// discovery is what the provider's document says.
type discovery struct {
	oauth      oauth2.Config
	verifier   *oidc.IDTokenVerifier
	endSession string
}

// New returns a provider. It sends no request. Link-local addresses and metadata services are
// refused, because the provider's document names further URLs.
func New(settings Settings) *Provider {
	var targets *egress.Rules
	p := &Provider{settings: settings,
		client: &http.Client{Transport: targets.NewTransport(), Timeout: requestTimeout}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// Close ends an attempt to read the document, and waits for its goroutine. Afterwards the provider
// reads the document no more.
func (p *Provider) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.stop()
	p.reading.Wait()
}

// Ready returns an *UnavailableError if the last attempt to read the provider's document failed. It
// starts an attempt if one is due, and does not wait for it.
func (p *Provider) Ready() error {
	_, _, err := p.state()
	return err
}

// state returns the document, or the error of the last attempt to read it, both nil before the
// first attempt has ended. It starts an attempt if one is due. The channel is closed at the end of
// the current attempt, and nil without one.
func (p *Provider) state() (*discovery, <-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.discovered == nil && p.active == nil && !p.closed &&
		(p.err == nil || time.Since(p.last) >= discoveryInterval) {
		p.active = make(chan struct{})
		p.reading.Go(p.attempt)
	}
	return p.discovered, p.active, p.err
}

// attempt reads the document once.
func (p *Provider) attempt() {
	found, err := p.read(p.ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.discovered, p.err, p.last = found, err, time.Now()
	close(p.active)
	p.active = nil
}

// discover returns the document. It waits for the current attempt until ctx ends.
func (p *Provider) discover(ctx context.Context) (*discovery, error) {
	found, active, err := p.state()
	if active != nil {
		select {
		case <-active:
			found, _, err = p.state()
		case <-ctx.Done():
			return nil, &UnavailableError{ctx.Err()}
		}
	}
	if found == nil && err == nil {
		return nil, &UnavailableError{errClosed}
	}
	return found, err
}

func (p *Provider) read(ctx context.Context) (*discovery, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.settings.Issuer)
	if err != nil {
		return nil, &UnavailableError{err}
	}
	var more struct {
		Authorization string   `json:"authorization_endpoint"`
		Token         string   `json:"token_endpoint"`
		Keys          string   `json:"jwks_uri"`
		EndSession    string   `json:"end_session_endpoint"`
		AuthMethods   []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := found.Claims(&more); err != nil {
		return nil, &UnavailableError{err}
	}
	for _, endpoint := range []string{more.Authorization, more.Token, more.Keys} {
		if hasTLS(p.settings.Issuer) && !hasTLS(endpoint) {
			return nil, &UnavailableError{fmt.Errorf("the document of %s has the endpoint %q, "+
				"expected an https URL", p.settings.Issuer, endpoint)}
		}
	}
	endpoint := found.Endpoint()
	endpoint.AuthStyle = oauth2.AuthStyleInHeader // the default of OpenID Connect
	if slices.Contains(more.AuthMethods, "client_secret_post") &&
		!slices.Contains(more.AuthMethods, "client_secret_basic") {
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return &discovery{
		oauth: oauth2.Config{ClientID: p.settings.ClientID, ClientSecret: p.settings.ClientSecret,
			RedirectURL: p.settings.RedirectURL, Endpoint: endpoint,
			Scopes: append([]string{oidc.ScopeOpenID}, p.settings.Scopes...)},
		verifier:   found.Verifier(&oidc.Config{ClientID: p.settings.ClientID}),
		endSession: more.EndSession,
	}, nil
}

// hasTLS reports whether a URL uses https. A secret or a key that goes over plain HTTP could be
// read or replaced.
func hasTLS(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme == "https" && u.Host != ""
}

// SignIn is one sign-in. Its values are random, and only the browser that began it has them.
type SignIn struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"` // of PKCE
}

// NewVerifier returns a verifier of PKCE.
func NewVerifier() string { return oauth2.GenerateVerifier() }

// SignInURL returns the address of the provider to which the browser goes.
func (p *Provider) SignInURL(ctx context.Context, s SignIn) (string, error) {
	d, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	return d.oauth.AuthCodeURL(s.State, oidc.Nonce(s.Nonce),
		oauth2.S256ChallengeOption(s.Verifier)), nil
}

// SignOutURL returns the address that ends the sign-in at the provider and then leads to back. It
// returns "" if the provider has none.
func (p *Provider) SignOutURL(ctx context.Context, back string) string {
	d, err := p.discover(ctx)
	if err != nil || d.endSession == "" {
		return ""
	}
	target, err := url.Parse(d.endSession)
	if err != nil || target.Scheme != "https" && target.Scheme != "http" {
		return ""
	}
	query := target.Query()
	query.Set("client_id", p.settings.ClientID)
	query.Set("post_logout_redirect_uri", back)
	target.RawQuery = query.Encode()
	return target.String()
}

// claims are the part of an ID token that is used.
type claims struct {
	Email    string `json:"email"`
	Verified any    `json:"email_verified"` // some providers send a string
	Party    string `json:"azp"`
}

// Redeem exchanges the code of the provider's answer for an ID token and checks it: signature,
// issuer, audience, expiry and nonce. It returns ErrEmail or an *UnavailableError, or the reason
// why the provider or the token was refused.
func (p *Provider) Redeem(ctx context.Context, s SignIn, code string) (User, error) {
	d, err := p.discover(ctx)
	if err != nil {
		return User{}, err
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.client), 2*requestTimeout)
	defer cancel()
	answer, err := d.oauth.Exchange(ctx, code, oauth2.VerifierOption(s.Verifier))
	if err != nil {
		return User{}, redeemError(err)
	}
	raw, ok := answer.Extra("id_token").(string)
	if !ok {
		return User{}, errors.New("the provider sent no ID token")
	}
	token, err := d.verifier.Verify(ctx, raw)
	if err != nil {
		return User{}, fmt.Errorf("verify ID token: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(s.Nonce)) != 1 {
		return User{}, errors.New("verify ID token: wrong nonce")
	}
	return p.userOf(token)
}

// AnswerError returns the error of an answer to a sign-in that has no code. name is the parameter
// error of the answer. It returns an *UnavailableError if the provider had an error of its own.
func AnswerError(name string) error {
	switch name {
	case "server_error", "temporarily_unavailable":
		return &UnavailableError{fmt.Errorf("sign in: error %q", name)}
	}
	return errors.New("the provider refused the sign-in")
}

// redeemError returns the error of a failed exchange without the provider's answer, which may
// contain secrets. It is an *UnavailableError if the provider did not refuse the code: such an
// answer has the error invalid_grant. It should have the status 400, but some providers send
// another one.
func redeemError(err error) error {
	var answer *oauth2.RetrieveError
	if !errors.As(err, &answer) {
		return &UnavailableError{err}
	}
	status := answer.Response.StatusCode
	err = fmt.Errorf("exchange code: status %d, error %q", status, answer.ErrorCode)
	if status == http.StatusBadRequest || answer.ErrorCode == "invalid_grant" {
		return err
	}
	return &UnavailableError{err}
}

func (p *Provider) userOf(token *oidc.IDToken) (User, error) {
	var c claims
	if err := token.Claims(&c); err != nil {
		return User{}, fmt.Errorf("read ID token: %w", err)
	}
	if len(token.Audience) > 1 && c.Party != p.settings.ClientID {
		return User{}, errors.New("verify ID token: it was issued for another client")
	}
	if c.Email == "" || c.Verified != true && c.Verified != "true" {
		return User{}, ErrEmail
	}
	groups, err := p.groupsOf(token)
	return User{Email: c.Email, Groups: groups}, err
}

// groupsOf returns the groups of a token: a list, or a single name.
func (p *Provider) groupsOf(token *oidc.IDToken) ([]string, error) {
	var all map[string]json.RawMessage
	if err := token.Claims(&all); err != nil {
		return nil, fmt.Errorf("read ID token: %w", err)
	}
	raw, found := all[p.settings.GroupsClaim]
	if !found {
		return nil, nil
	}
	var groups []string
	if json.Unmarshal(raw, &groups) == nil {
		return slices.Compact(groups), nil
	}
	var group string
	if err := json.Unmarshal(raw, &group); err != nil {
		return nil, fmt.Errorf("read claim %q of ID token: expected names of groups",
			p.settings.GroupsClaim)
	}
	return []string{group}, nil
}
