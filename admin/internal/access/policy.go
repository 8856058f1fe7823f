package access

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/admin/password"
)

// Policy says who may use the server, under which host names.
type Policy struct {
	Hosts      []string // beside loopback's: lower case, without port
	Users      []User
	Tokens     []Token
	Proxy      *Proxy   // nil: no proxy is trusted
	CookieKeys [][]byte // the first one signs, all verify; none: derived from the users' hashes
}

// User may sign in to the pages.
type User struct {
	Name         string // at most 200 bytes, without control characters
	Role         Role
	PasswordHash string // in the format of password.Parse
}

// Token gives a client access to the API.
type Token struct {
	Name string
	Role Role
	Hash string // SHA-256 of the token, in hexadecimal
}

const minCookieKey = 32 // bytes

// Guarded reports whether requests need proof of identity.
func (p *Policy) Guarded() bool { return len(p.Users) > 0 || len(p.Tokens) > 0 || p.Proxy.names() }

// Check calls bad for each mistake.
func (p *Policy) Check(bad func(format string, args ...any)) {
	p.checkUsers(bad)
	p.checkTokens(bad)
	p.checkProxy(bad)
	for i, key := range p.CookieKeys {
		if len(key) < minCookieKey {
			bad("cookie key %d has %d bytes, expected at least %d", i+1, len(key), minCookieKey)
		}
	}
}

func (p *Policy) checkUsers(bad func(format string, args ...any)) {
	seen := make(map[string]bool)
	for i, user := range p.Users {
		_, err := password.Parse(user.PasswordHash)
		switch {
		case !isUserName(user.Name):
			bad("user %d: name %q is empty, has more than 200 bytes or a control character", i+1,
				words.Cut(user.Name, 200))
		case seen[user.Name]:
			bad("user %q is there twice", user.Name)
		case !user.Role.known():
			bad("user %q: role is %q, expected viewer or operator", user.Name, user.Role)
		case err != nil:
			bad("user %q: password hash: %w", user.Name, err)
		}
		seen[user.Name] = true
	}
}

func (p *Policy) checkTokens(bad func(format string, args ...any)) {
	for i, token := range p.Tokens {
		sum, err := hex.DecodeString(token.Hash)
		switch {
		case !isUserName(token.Name):
			bad("token %d: name %q is empty, has more than 200 bytes or a control character", i+1,
				words.Cut(token.Name, 200))
		case !token.Role.known() && token.Role != Scraper:
			bad("token %q: role is %q, expected viewer, operator or metrics", token.Name,
				token.Role)
		case err != nil || len(sum) != sha256.Size:
			bad("token %q: the hash is not the SHA-256 of a token in hexadecimal", token.Name)
		}
	}
}

func (p *Policy) checkProxy(bad func(format string, args ...any)) {
	switch {
	case p.Proxy == nil:
	case len(p.Proxy.Networks) == 0:
		bad("the proxy's networks are needed")
	case p.Proxy.UserHeader != "" && !p.Proxy.Role.known():
		bad("the proxy's role is %q, expected viewer or operator", p.Proxy.Role)
	}
}

// isUserName allows names that are safe in logs, HTTP and the audit log.
func isUserName(name string) bool {
	const longest = 200
	return name != "" && len(name) <= longest && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, unicode.IsControl)
}
