package access

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/admin/password"
	"github.com/holdfast-dev/holdfast/internal/plural"
	"github.com/holdfast-dev/holdfast/internal/proxyheader"
	"github.com/holdfast-dev/holdfast/internal/runes"
	"github.com/holdfast-dev/holdfast/jobs/permission"
)

// Policy says who may use the server, under which host names.
type Policy struct {
	Hosts  []string // besides loopback names: lower case, without port
	Users  []User
	Tokens []Token
	Proxy  *Proxy // nil: no proxy is trusted
	OIDC   *OIDC  // nil: no provider signs people in
	// Roles are beside the predefined ones.
	Roles []permission.Role
	// Authorizer decides about permissions. Nil: the roles decide. With it, roles may have any
	// name.
	Authorizer permission.Authorizer
	CookieKeys [][]byte // the first one signs, all verify; none: derived from the users' hashes
	// Authenticate replaces Users, Tokens, OIDC and the users of the Proxy. Nil: they apply.
	Authenticate func(*http.Request) (Visitor, error)
	// SignInURL is where Authenticate's users sign in; "" if browsers are not sent there.
	SignInURL string
}

// User may sign in to the pages.
type User struct {
	Name         string // at most 200 bytes, without invisible characters
	Role         Role
	PasswordHash string // in the format of password.Parse
}

// Token gives a client access to the API.
type Token struct {
	Name string
	Role Role
	Hash string // SHA-256 of the token, in hexadecimal
	// Expires is when the token ends; zero: never.
	Expires time.Time
	// Scope limits the token to a part of its role; nil: no limit.
	Scope *permission.Grant
}

const minCookieKey = 32 // bytes

// Guarded reports whether requests need proof of identity.
func (p *Policy) Guarded() bool {
	return p.Authenticate != nil || len(p.Users) > 0 || len(p.Tokens) > 0 || p.Proxy.names() ||
		p.OIDC != nil
}

// Check calls bad for each mistake.
func (p *Policy) Check(bad func(format string, args ...any)) {
	roles := permission.NewPolicy(p.Roles, bad)
	known := func(r Role) bool { return roles.Has(string(r)) || p.Authorizer != nil && r != "" }
	people := func(r Role) bool { return known(r) && r != MetricsReader }
	names := make(map[string]string)
	p.checkUsers(people, names, bad)
	p.checkTokens(known, names, bad)
	p.checkProxy(people, names, bad)
	p.checkProgram(bad)
	p.OIDC.check(people, p.Hosts, len(p.CookieKeys), bad)
	for i, key := range p.CookieKeys {
		if len(key) < minCookieKey {
			bad("cookie key %d has %s, expected at least %d", i+1,
				plural.Of(len(key), "byte", "bytes"), minCookieKey)
		}
	}
}

// takeName calls bad if there is an actor of the name already, or of one that differs only in case.
// Names has the kinds of actors by folded name. Actors of one name would be one actor in the audit
// log.
func takeName(names map[string]string, kind, name string, bad func(format string, args ...any)) {
	folded := runes.Fold(name)
	switch other, taken := names[folded]; {
	case taken && other == kind:
		bad("%s %q is there twice", kind, name)
	case taken:
		bad("%s %q has the name of a %s: they would be one actor in the audit log", kind, name,
			other)
	default:
		names[folded] = kind
	}
}

func (p *Policy) checkUsers(known func(Role) bool, names map[string]string,
	bad func(format string, args ...any)) {
	for i, user := range p.Users {
		_, err := password.Parse(user.PasswordHash)
		switch {
		case !isUserName(user.Name):
			bad("user %d: name %q is empty, has more than 200 bytes or an "+
				"invisible character", i+1,
				words.Cut(user.Name, 200))
		case !known(user.Role):
			bad("user %q: role is %q, which does not exist", user.Name, user.Role)
		case err != nil:
			bad("user %q: password hash: %w", user.Name, err)
		}
		takeName(names, "user", user.Name, bad)
	}
}

func (p *Policy) checkTokens(known func(Role) bool, names map[string]string,
	bad func(format string, args ...any)) {
	hashes := make(map[string]bool)
	for i, token := range p.Tokens {
		sum, err := hex.DecodeString(token.Hash)
		switch {
		case !isUserName(token.Name):
			bad("token %d: name %q is empty, has more than 200 bytes or an "+
				"invisible character", i+1,
				words.Cut(token.Name, 200))
		case !known(token.Role):
			bad("token %q: role is %q, which does not exist", token.Name, token.Role)
		case err != nil || len(sum) != sha256.Size:
			bad("token %q: the hash is not the SHA-256 of a token in hexadecimal", token.Name)
		case hashes[string(sum)]:
			bad("token %q has the hash of another token", token.Name)
		}
		hashes[string(sum)] = true
		takeName(names, "token", token.Name, bad)
	}
}

func (p *Policy) checkProxy(known func(Role) bool, names map[string]string,
	bad func(format string, args ...any)) {
	if p.Proxy == nil {
		return
	}
	proxy := p.Proxy
	switch {
	case len(proxy.Networks) == 0:
		bad("the proxy's networks are needed")
	case slices.ContainsFunc(proxy.Networks, func(n netip.Prefix) bool { return n.Bits() <= 0 }):
		bad("a network of the proxy is everybody")
	case len(proxy.ClientNames) > 0 && proxy.ClientCAs == nil:
		bad("the names of the proxy's certificate need the authorities that sign it")
	}
	proxy.checkSecret(bad)
	proxy.checkUsers(known, bad)
	for _, name := range proxy.Operators {
		takeName(names, "operator of the proxy", name, bad)
	}
}

func (p *Proxy) checkSecret(bad func(format string, args ...any)) {
	switch {
	case (p.SecretHeader == "") != (p.Secret == ""):
		bad("the proxy's secret and its header are needed together")
	case p.SecretHeader == "":
	case !proxyheader.IsName(p.SecretHeader), strings.EqualFold(p.SecretHeader, p.UserHeader):
		bad("the header of the proxy's secret is %q, which has another meaning", p.SecretHeader)
	case len(p.Secret) < proxyheader.MinSecret:
		bad("the proxy's secret has %s, expected at least %d",
			plural.Of(len(p.Secret), "byte", "bytes"), proxyheader.MinSecret)
	case !proxyheader.IsValue(p.Secret):
		bad("the proxy's secret has other bytes than printable ASCII without spaces")
	}
}

func (p *Proxy) checkUsers(known func(Role) bool, bad func(format string, args ...any)) {
	switch {
	case p.UserHeader == "" && len(p.Operators) > 0:
		bad("operators of the proxy need the header that names them")
	case p.UserHeader == "":
	case !proxyheader.IsName(p.UserHeader):
		bad("the proxy's header of users is %q, which has another meaning", p.UserHeader)
	case !known(p.Role):
		bad("the proxy's role is %q, which does not exist", p.Role)
	}
}

// authorizer returns who decides about permissions.
func (p *Policy) authorizer() permission.Authorizer {
	if p.Authorizer != nil {
		return p.Authorizer
	}
	return permission.NewPolicy(p.Roles, func(string, ...any) {}) // Check has reported mistakes
}

// isUserName allows names that are safe in logs, HTTP and the audit log, and that do not look like
// others because of invisible characters.
func isUserName(name string) bool {
	const longest = 200
	return name != "" && len(name) <= longest && utf8.ValidString(name) &&
		strings.TrimSpace(name) == name && !strings.ContainsFunc(name, func(r rune) bool {
		return runes.IsControl(r) || runes.IsInvisible(r)
	})
}
