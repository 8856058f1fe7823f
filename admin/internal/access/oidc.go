package access

import (
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/oidc"
	"github.com/holdfast-dev/holdfast/internal/runes"
)

// OIDC is an OpenID Connect provider that signs people in. A person is named by the verified e-mail
// address.
type OIDC struct {
	Issuer       string // URL, exactly as the provider names itself
	ClientID     string
	ClientSecret string
	// RedirectURL is the address of this server with the path CallbackPath.
	RedirectURL string
	Scopes      []string // beside openid
	GroupsClaim string   // the claim with the groups of a person
	// Domains are those of allowed e-mail addresses, in lower case; "*" or none: all. With Role
	// they are needed.
	Domains []string
	// Groups give roles. The first one in the list that the person is in decides.
	Groups []OIDCGroup
	Role   Role // of people in none of Groups; "": they are refused
}

// OIDCGroup gives the members of a group a role.
type OIDCGroup struct {
	Name string
	Role Role
}

// The addresses of a sign-in by OpenID Connect.
const (
	StartPath     = SignInPath + "/oidc"
	CallbackPath  = StartPath + "/callback"
	SignedOutPath = StartPath + "/signed-out"
)

// settings returns the settings of the provider.
func (o *OIDC) settings() oidc.Settings {
	return oidc.Settings{Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: o.ClientSecret,
		RedirectURL: o.RedirectURL, Scopes: o.Scopes, GroupsClaim: o.GroupsClaim}
}

// check calls bad for each mistake.
func (o *OIDC) check(known func(Role) bool, hosts []string, keys int,
	bad func(format string, args ...any)) {
	if o == nil {
		return
	}
	if !isSecureURL(o.Issuer) {
		bad("the issuer of OpenID Connect is %q, expected an https URL", o.Issuer)
	}
	redirect, err := url.Parse(o.RedirectURL)
	if !isSecureURL(o.RedirectURL) || err != nil ||
		!strings.HasSuffix(redirect.Path, CallbackPath) {
		bad("the redirect URL of OpenID Connect is %q, expected https and a path that ends with %s",
			o.RedirectURL, CallbackPath)
	} else if host := strings.ToLower(redirect.Hostname()); !IsLoopback(host) &&
		!slices.Contains(hosts, host) && net.ParseIP(host) == nil {
		bad("the redirect URL of OpenID Connect is %q, but the page is not shown under this host",
			o.RedirectURL)
	}
	if o.ClientID == "" {
		bad("the client id of OpenID Connect is needed")
	}
	if o.Role != "" && !known(o.Role) {
		bad("the role of OpenID Connect is %q, which does not exist", o.Role)
	}
	for _, group := range o.Groups {
		if group.Name == "" || !known(group.Role) {
			bad("group %q of OpenID Connect: role is %q, which does not exist", group.Name,
				group.Role)
		}
	}
	if o.Role == "" && len(o.Groups) == 0 {
		bad("OpenID Connect gives nobody a role: a role or groups are needed")
	}
	if o.Role != "" && len(o.Domains) == 0 {
		bad("OpenID Connect gives everybody a role: domains are needed, or \"*\" for all")
	}
	if keys == 0 {
		bad("OpenID Connect needs cookie keys")
	}
}

// allDomains stands for all domains of e-mail addresses.
const allDomains = "*"

// isSecureURL reports whether a URL uses https, or http to this machine.
func isSecureURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && u.User == nil && u.Fragment == "" &&
		(u.Scheme == "https" || u.Scheme == "http" && IsLoopback(u.Hostname()))
}

// roleOf returns the role of a person, and false for people who are not allowed.
func (o *OIDC) roleOf(email string, groups []string) (Role, bool) {
	_, domain, _ := strings.Cut(email, "@")
	if len(o.Domains) > 0 && !slices.Contains(o.Domains, allDomains) &&
		!slices.Contains(o.Domains, strings.ToLower(domain)) {
		return "", false
	}
	for _, group := range o.Groups {
		if slices.Contains(groups, group.Name) {
			return group.Role, true
		}
	}
	return o.Role, o.Role != ""
}

const (
	oidcSuffix    = "-oidc"
	attemptSuffix = "-oidc-attempt"
	// attemptLifetime is how long a person may take to sign in at the provider.
	attemptLifetime = 10 * time.Minute
	// maxGroupBytes bounds the names of groups in a cookie.
	maxGroupBytes = 1500
)

// oidcSignIn is the content of the cookie of a sign-in. It has groups and not a role, so that a
// reload applies to it.
type oidcSignIn struct {
	Email      string   `json:"e"`
	Groups     []string `json:"g,omitempty"` // those that the configuration names
	Generation int64    `json:"n"`
}

// pendingSignIn is the content of the cookie of a sign-in in progress.
type pendingSignIn struct {
	oidc.SignIn
	Next string `json:"t"`
}

// oidcAccounts signs and verifies the cookies of a provider's sign-ins. It is immutable.
type oidcAccounts struct {
	*OIDC
	provider *oidc.Provider
	signIns  *signer
	pending  *signer
}

// newOIDCAccounts returns nil for a policy without a provider.
func newOIDCAccounts(p Policy) (*oidcAccounts, error) {
	if p.OIDC == nil {
		return nil, nil
	}
	o := &oidcAccounts{OIDC: p.OIDC, provider: oidc.New(p.OIDC.settings())}
	var err error
	if o.signIns, err = newSigner(oidcKeys, p.CookieKeys, nil); err != nil {
		return nil, err
	}
	o.pending, err = newSigner(pendingSignInKeys, p.CookieKeys, nil)
	return o, err
}

// bound binds cookies to the provider, so that another provider's sign-ins are not valid.
func (o *oidcAccounts) bound(string) (string, bool) { return o.Issuer + " " + o.ClientID, true }

// seal signs a value for a cookie.
func (o *oidcAccounts) seal(s *signer, value any, lifetime time.Duration) (string, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	text, _ := o.bound("")
	return s.sign(string(content), text, time.Now().Add(lifetime)), nil
}

// unseal reads a value that seal has signed.
func (o *oidcAccounts) unseal(s *signer, sealed string, lifetime time.Duration, value any) bool {
	content, ok := s.verify(sealed, lifetime, o.bound)
	return ok && json.Unmarshal([]byte(content), value) == nil
}

// relevant returns the groups that the configuration names, as many as a cookie can have.
func (o *OIDC) relevant(groups []string) (found []string) {
	left := maxGroupBytes
	for _, group := range o.Groups {
		if !slices.Contains(groups, group.Name) {
			continue
		}
		if left -= len(group.Name); left < 0 {
			break
		}
		found = append(found, group.Name)
	}
	return found
}

// signedInByOIDC returns the people of valid cookies.
func (a *accounts) signedInByOIDC(r *http.Request) (people []Identity) {
	if a.oidc == nil {
		return nil
	}
	for _, cookie := range r.CookiesNamed(a.cookies.of(r) + oidcSuffix) {
		var s oidcSignIn
		if !a.oidc.unseal(a.oidc.signIns, cookie.Value, signInLifetime, &s) ||
			a.takenForOIDC(s.Email) {
			continue
		}
		role, allowed := a.oidc.roleOf(s.Email, s.Groups)
		if allowed && s.Generation >= a.generations.of(r.Context(), s.Email, generationsInterval) {
			people = append(people, Identity{Name: s.Email, Role: role, By: ByOIDC,
				generation: s.Generation})
		}
	}
	return people
}

// taken reports whether a user or token of the configuration has the name, or one that differs only
// in case. Then a person of the provider or the trusted proxy must not act under it.
func (a *accounts) taken(name string) bool { return a.names[runes.Fold(name)] }

// takenForOIDC is taken for a person of the provider, who must not act as an operator of the
// trusted proxy either.
func (a *accounts) takenForOIDC(name string) bool {
	return a.taken(name) || a.proxy != nil && slices.ContainsFunc(a.proxy.Operators,
		func(operator string) bool { return strings.EqualFold(operator, name) })
}
