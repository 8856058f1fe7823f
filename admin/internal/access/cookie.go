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
)

const (
	// signInLifetime is how long a sign-in lasts. Activity does not extend it.
	signInLifetime = 12 * time.Hour
	// clockMargin is how far the clock of the signing replica may be ahead.
	clockMargin = time.Hour

	secureCookie = "__Host-holdfast"
	// plainCookie is the name over plain HTTP. Browsers accept the prefix __Host- only over TLS.
	plainCookie = "holdfast"
)

// signer creates and verifies the values of cookies: a user's name and an expiry, signed with a key
// that every replica has. No sign-in is stored, so a cookie of one replica is valid on all.
//
// The signature covers the user's password hash, so a changed password or a removed user ends all
// sign-ins. The cookie does not contain the role. The configured role applies.
type signer struct {
	keys    [][]byte          // the first one signs
	derived map[string][]byte // by user, if no keys are configured
}

const keyInfo = "holdfast admin sign-in"

// newSigner derives keys from the users' password hashes if no keys are given. Replicas with one
// configuration derive the same keys, and nobody can compute them without the hash. Each user has a
// separate key, so that replicas whose user lists differ still agree on common users.
func newSigner(given [][]byte, users []User) (*signer, error) {
	s := &signer{derived: make(map[string][]byte)}
	for _, secret := range given {
		key, err := hkdf.Key(sha256.New, secret, nil, keyInfo, sha256.Size)
		if err != nil {
			return nil, err
		}
		s.keys = append(s.keys, key)
	}
	if len(given) > 0 {
		return s, nil
	}
	for _, user := range users {
		key, err := hkdf.Key(sha256.New, []byte(user.PasswordHash), nil, keyInfo+" "+user.Name,
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

// sign returns a cookie's value for a configured user.
func (s *signer) sign(name, hash string, until time.Time) string {
	end := strconv.FormatInt(until.Unix(), 10)
	return base64.RawURLEncoding.EncodeToString([]byte(name)) + "." + end + "." +
		base64.RawURLEncoding.EncodeToString(signature(s.keysOf(name)[0], name, end, hash))
}

func signature(key []byte, name, end, hash string) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range []string{name, end, hash} { // no part contains NUL
		mac.Write([]byte(part))
		mac.Write([]byte{0})
	}
	return mac.Sum(nil)
}

// verify returns the user that a valid, unexpired value was signed for.
func (s *signer) verify(value string, users map[string]account) (string, bool) {
	const longest = 1024
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
	user, known := users[name]
	left := time.Until(time.Unix(end, 0))
	if !known || left <= 0 || left > signInLifetime+clockMargin {
		return "", false
	}
	for _, key := range s.keysOf(name) {
		if hmac.Equal(sum, signature(key, name, parts[1], user.text)) {
			return name, true
		}
	}
	return "", false
}

// cookieName returns the name for the connection. Over TLS, also behind a proxy, the prefix __Host-
// binds the cookie to TLS and to this host.
func cookieName(r *http.Request, proxy *Proxy) string {
	if !overTLS(r, proxy) && IsLoopback(hostOnly(r.Host)) {
		return plainCookie
	}
	return secureCookie
}
