package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/mount"
	"github.com/holdfast-dev/holdfast/admin/password"
	"github.com/holdfast-dev/holdfast/internal/runes"
	"github.com/holdfast-dev/holdfast/jobs/permission"
)

// accounts identifies the senders of requests. It is immutable.
type accounts struct {
	guarded     bool // the server has users, tokens or a proxy that names users
	users       map[string]account
	tokens      []tokenAccount
	names       map[string]bool // of users and tokens, folded
	proxy       *Proxy
	signer      *signer
	browsers    *signer   // of known browsers
	throttle    *throttle // of wrong tokens
	generations *generations
	oidc        *oidcAccounts // nil: no provider signs people in
	// authenticate replaces all other proofs; nil: they apply
	authenticate func(*http.Request) (Visitor, error)
	cookies      cookieNames
}

type account struct {
	role Role
	hash password.Hash
	text string // of the hash; a sign-in is bound to it
}

type tokenAccount struct {
	name string
	role Role
	sum  []byte

	expires time.Time // zero: never
	scope   *permission.Grant
}

// refusal is an error for a proof of identity that is invalid. Its text is sent to the client.
type refusal struct {
	status int
	text   string
	cause  error         // for the log; may be nil
	left   time.Duration // until the next attempt is allowed; 0 unless the client is throttled
}

func (e *refusal) Error() string {
	if e.cause != nil {
		return e.text + " " + e.cause.Error()
	}
	return e.text
}

// newAccounts expects a policy that Policy.Check accepted.
func newAccounts(p Policy, prefix mount.Prefix, t *throttle, g *generations) (*accounts, error) {
	a := &accounts{guarded: p.Guarded(), users: make(map[string]account),
		names: make(map[string]bool), proxy: p.Proxy,
		throttle: t, generations: g, authenticate: p.Authenticate,
		cookies: cookieNames{prefix, p.Proxy}}
	for _, user := range p.Users {
		hash, err := password.Parse(user.PasswordHash)
		if err != nil {
			return nil, err
		}
		a.names[runes.Fold(user.Name)] = true
		a.users[user.Name] = account{role: user.Role, hash: hash, text: user.PasswordHash}
	}
	for _, token := range p.Tokens {
		sum, err := hex.DecodeString(token.Hash)
		if err != nil {
			return nil, err
		}
		a.names[runes.Fold(token.Name)] = true
		a.tokens = append(a.tokens, tokenAccount{token.Name, token.Role, sum,
			token.Expires, token.Scope})
	}
	var err error
	if a.signer, err = newSigner(signInKeys, p.CookieKeys, p.Users); err != nil {
		return nil, err
	}
	if a.browsers, err = newSigner(browserKeys, p.CookieKeys, p.Users); err != nil {
		return nil, err
	}
	a.oidc, err = newOIDCAccounts(p)
	return a, err
}

// signSignIn returns the value of the cookie of a sign-in.
func (a *accounts) signSignIn(name string, generation int64, until time.Time) string {
	text := strconv.FormatInt(generation, 10)
	return text + "." + a.signer.sign(name, text+" "+a.users[name].text, until)
}

// verifySignIn returns the user and the generation of a value of signSignIn.
func (a *accounts) verifySignIn(value string) (name string, generation int64, ok bool) {
	text, signed, _ := strings.Cut(value, ".")
	generation, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return "", 0, false
	}
	name, ok = a.signer.verify(signed, signInLifetime, func(name string) (string, bool) {
		user, known := a.users[name]
		return text + " " + user.text, known
	})
	return name, generation, ok
}

// open reports whether every request is accepted without proof of identity.
func (a *accounts) open() bool { return !a.guarded }

// identify returns the sender of a request, or an unauthenticated Identity if the request has no
// proof. It returns a *refusal for an invalid proof. The header of a trusted proxy takes precedence
// over a token, because such proxies send tokens of their own.
func (a *accounts) identify(r *http.Request) (Identity, error) {
	if a.open() {
		return Identity{Role: Operator, By: ByLoopback}, nil
	}
	if a.authenticate != nil {
		return a.byProgram(r)
	}
	if a.proxy.names() {
		if named := r.Header.Values(a.proxy.UserHeader); len(named) > 0 {
			return a.named(r, named)
		}
	}
	if scheme, token, found := strings.Cut(r.Header.Get("Authorization"), " "); found &&
		strings.EqualFold(scheme, "Bearer") {
		return a.bearer(clientOf(r, a.proxy), strings.TrimSpace(token))
	}
	if signIns := a.signIns(r); len(signIns) > 0 {
		return signIns[0], nil
	}
	return Identity{}, nil
}

// signIns returns the people of all valid cookies, those with a password first.
func (a *accounts) signIns(r *http.Request) []Identity {
	return append(a.signedIn(r), a.signedInByOIDC(r)...)
}

func (a *accounts) named(r *http.Request, names []string) (Identity, error) {
	if peer := peerOf(r); !a.proxy.trusts(peer) {
		return Identity{}, &refusal{status: http.StatusForbidden, text: fmt.Sprintf("The request "+
			"names a user in %s, but %s is not among the networks of the trusted proxy.",
			a.proxy.UserHeader, peer)}
	}
	if !a.proxy.hasSecret(r.Header) {
		return Identity{}, &refusal{status: http.StatusForbidden, text: fmt.Sprintf("The request "+
			"names a user in %s, but does not have the secret of the trusted proxy in %s.",
			a.proxy.UserHeader, a.proxy.SecretHeader)}
	}
	if err := a.proxy.checkCertificate(r.TLS); err != nil {
		return Identity{}, &refusal{status: http.StatusForbidden, text: fmt.Sprintf("The request "+
			"names a user in %s, but %v.", a.proxy.UserHeader, err)}
	}
	name := strings.TrimSpace(names[0])
	if len(names) > 1 || !isUserName(name) {
		return Identity{}, &refusal{status: http.StatusForbidden,
			text: "The trusted proxy names no single user in " + a.proxy.UserHeader + "."}
	}
	if a.taken(name) {
		return Identity{}, &refusal{status: http.StatusForbidden, text: "The trusted proxy names " +
			"a user who has the name of a user or a token of the configuration."}
	}
	return Identity{Name: name, Role: a.proxy.roleOf(name), By: ByProxy}, nil
}

// bearer compares the hash with that of every token, so that the duration does not reveal a match.
// The limit of wrong tokens does not apply to known ones. Otherwise a client could lock out the
// others at its address.
func (a *accounts) bearer(client netip.Addr, token string) (Identity, error) {
	sum := sha256.Sum256([]byte(token))
	var found Identity
	var expires time.Time
	for _, t := range a.tokens {
		if subtle.ConstantTimeCompare(sum[:], t.sum) == 1 {
			found = Identity{Name: t.name, Role: t.role, By: ByToken, Scope: t.scope}
			expires = t.expires
		}
	}
	switch {
	case found.unauthenticated():
		return Identity{}, a.refuseToken(client, sum[:])
	case !expires.IsZero() && !time.Now().Before(expires):
		return Identity{}, &refusal{status: http.StatusUnauthorized, text: fmt.Sprintf(
			"This token expired at %s.", expires.UTC().Format(time.RFC3339))}
	}
	return found, nil
}

// refuseToken counts an unknown token and returns the refusal, or an error.
func (a *accounts) refuseToken(client netip.Addr, sum []byte) error {
	var throttled *throttledError
	if err := a.throttle.checkToken(client); errors.As(err, &throttled) {
		return &refusal{status: http.StatusTooManyRequests,
			text: "Too many wrong tokens came from this address.", left: throttled.left}
	} else if err != nil {
		return err
	}
	if err := a.throttle.tokenFailed(client, sum); err != nil {
		return err
	}
	return &refusal{status: http.StatusUnauthorized, text: "This token is not known."}
}

// signedIn returns the users of valid cookies. It ignores other cookies.
func (a *accounts) signedIn(r *http.Request) (users []Identity) {
	for _, cookie := range r.CookiesNamed(a.cookies.of(r)) {
		name, generation, ok := a.verifySignIn(cookie.Value)
		if ok && generation >= a.generations.of(r.Context(), name, generationsInterval) {
			users = append(users, Identity{Name: name, Role: a.users[name].role, By: ByPassword,
				generation: generation})
		}
	}
	return users
}
