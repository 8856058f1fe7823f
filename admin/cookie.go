package admin

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
	// signInLifetime is how long a sign-in lasts, whatever is done meanwhile.
	signInLifetime = 12 * time.Hour
	// clockMargin is how far the clock of the replica that signed may be ahead.
	clockMargin = time.Hour

	secureCookie = "__Host-holdfast"
	// plainCookie is for plain HTTP on loopback: browsers keep the prefix
	// __Host- for what comes over TLS.
	plainCookie = "holdfast"
)

// signer makes and verifies the values of cookies: a user's name and an
// instant, signed with a key that every replica has. Nothing is kept, so a
// cookie of one replica is good for all.
//
// The signature also covers the user's password hash: a changed password, or
// a user who is no more, ends all sign-ins. The role is not in the cookie, and
// is always the configured one.
type signer struct {
	keys    [][]byte          // the first signs
	derived map[string][]byte // by user, where no keys are configured
}

const keyInfo = "holdfast admin sign-in"

// newSigner derives keys from the users' hashes where none are given: replicas
// of one configuration agree on them, and nobody can compute them who does not
// know the hash. Each user has a key of their own, so that a replica whose
// configuration has another user more agrees all the same.
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

// keysOf returns the keys that are believed for a user, of which the first signs.
func (s *signer) keysOf(name string) [][]byte {
	if len(s.keys) > 0 {
		return s.keys
	}
	if key, ok := s.derived[name]; ok {
		return [][]byte{key}
	}
	return nil
}

// sign returns a cookie's value for a user of the configuration.
func (s *signer) sign(name, hash string, until time.Time) string {
	end := strconv.FormatInt(until.Unix(), 10)
	return base64.RawURLEncoding.EncodeToString([]byte(name)) + "." + end + "." +
		base64.RawURLEncoding.EncodeToString(signature(s.keysOf(name)[0], name, end, hash))
}

func signature(key []byte, name, end, hash string) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range []string{name, end, hash} { // none has a NUL
		mac.Write([]byte(part))
		mac.Write([]byte{0})
	}
	return mac.Sum(nil)
}

// verify returns the user whom a value was signed for, if it is good now.
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

// cookieName is that of the connection: where TLS is, or may be in front of
// us, the browser holds the cookie to TLS, to this host and to its root.
func cookieName(r *http.Request, proxy *Proxy) string {
	if !overTLS(r, proxy) && isLoopback(hostOnly(r.Host)) {
		return plainCookie
	}
	return secureCookie
}

// setCookie has the browser keep a sign-in, or forget it with an empty value.
func (s *Server) setCookie(w http.ResponseWriter, r *http.Request, value string) {
	name := cookieName(r, s.accessRules().proxy)
	cookie := &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: int(signInLifetime.Seconds()),
		HttpOnly: true, Secure: name == secureCookie, SameSite: http.SameSiteStrictMode,
	}
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}
