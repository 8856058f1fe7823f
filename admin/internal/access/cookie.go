package access

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/mount"
)

const (
	// signInLifetime is how long a sign-in lasts. Activity does not extend it.
	signInLifetime = 12 * time.Hour
	// clockMargin is how far the clock of the signing replica may be ahead.
	clockMargin = time.Hour

	secureCookie = "__Host-holdfast"
	// prefixedCookie is the name over TLS under a prefix. Browsers accept the prefix __Host- only
	// with the path /.
	prefixedCookie = "__Secure-holdfast"
	// plainCookie is the name over plain HTTP. Browsers accept the prefix __Host- only over TLS.
	plainCookie = "holdfast"
)

// signer creates and verifies the values of cookies for one purpose: a user's name and an expiry,
// signed with a key that every replica has. So a cookie of one replica is valid on all.
//
// The signature also covers a text that the value does not contain. For a sign-in this is the
// user's password hash, so a changed password or a removed user ends all sign-ins, and the
// generation of the user. The cookie does not contain the role. The configured role applies.
type signer struct {
	keys    [][]byte          // the first one signs
	derived map[string][]byte // by user, if no keys are configured
}

// The purposes of keys.
const (
	signInKeys        = "holdfast admin sign-in"
	browserKeys       = "holdfast admin known browser"
	oidcKeys          = "holdfast admin OpenID Connect sign-in"
	pendingSignInKeys = "holdfast admin OpenID Connect attempt"
)

// newSigner returns a signer for one purpose, which accepts no values of another one. It derives
// keys from the users' password hashes if no keys are given. Replicas with one configuration derive
// the same keys, and nobody can compute them without the hash. Each user has a separate key, so
// that replicas whose user lists differ still agree on common users.
func newSigner(purpose string, given [][]byte, users []User) (*signer, error) {
	s := &signer{derived: make(map[string][]byte)}
	for _, secret := range given {
		key, err := hkdf.Key(sha256.New, secret, nil, purpose, sha256.Size)
		if err != nil {
			return nil, err
		}
		s.keys = append(s.keys, key)
	}
	if len(given) > 0 {
		return s, nil
	}
	for _, user := range users {
		key, err := hkdf.Key(sha256.New, []byte(user.PasswordHash), nil, purpose+" "+user.Name,
			sha256.Size)
		if err != nil {
			return nil, err
		}
		s.derived[user.Name] = key
	}
	return s, nil
}

// keysOf returns the valid keys of a user. The first one signs.
func (s *signer) keysOf(name string) [][]byte {
	if len(s.keys) > 0 {
		return s.keys
	}
	if key, ok := s.derived[name]; ok {
		return [][]byte{key}
	}
	return nil
}

// sign returns a cookie's value for a configured user. bound is what verify gets for this user.
func (s *signer) sign(name, bound string, until time.Time) string {
	end := strconv.FormatInt(until.Unix(), 10)
	return base64.RawURLEncoding.EncodeToString([]byte(name)) + "." + end + "." +
		base64.RawURLEncoding.EncodeToString(signature(s.keysOf(name)[0], name, end, bound))
}

func signature(key []byte, name, end, bound string) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range []string{name, end, bound} { // no part contains NUL
		mac.Write([]byte(part))
		mac.Write([]byte{0})
	}
	return mac.Sum(nil)
}

// verify returns the user that a valid, unexpired value was signed for. Values live for at most
// lifetime. bound returns the text that the signature of a user's value covers, and false for
// unknown users.
func (s *signer) verify(value string, lifetime time.Duration,
	bound func(name string) (string, bool)) (string, bool) {
	const longest = 3500 // a browser keeps 4096 bytes
	parts := strings.Split(value, ".")
	if len(value) > longest || len(parts) != 3 {
		return "", false
	}
	raw, errName := base64.RawURLEncoding.DecodeString(parts[0])
	end, errEnd := strconv.ParseInt(parts[1], 10, 64)
	sum, errSum := base64.RawURLEncoding.DecodeString(parts[2])
	if errName != nil || errEnd != nil || errSum != nil {
		return "", false
	}
	name := string(raw)
	text, known := bound(name)
	left := time.Until(time.Unix(end, 0))
	if !known || left <= 0 || left > lifetime+clockMargin {
		return "", false
	}
	for _, key := range s.keysOf(name) {
		if hmac.Equal(sum, signature(key, name, parts[1], text)) {
			return name, true
		}
	}
	return "", false
}

// cookieNames are the names of the sign-in's cookie. Other cookies have a suffix.
type cookieNames struct {
	prefix mount.Prefix
	proxy  *Proxy
}

// of returns the name for the connection. Over TLS, also behind a proxy, the name binds the cookie
// to TLS and, without a prefix, to this host.
func (n cookieNames) of(r *http.Request) string {
	switch {
	case !overTLS(r, n.proxy) && IsLoopback(hostOnly(r.Host)):
		return plainCookie
	case n.prefix != "":
		return prefixedCookie
	}
	return secureCookie
}
