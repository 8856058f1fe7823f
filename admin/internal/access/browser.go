package access

import (
	"crypto/rand"
	"net/http"
	"strings"
	"time"
)

// A browser is known for a user after a sign-in of the user. Its failed sign-ins have a count of
// their own, so that guesses from elsewhere cannot slow the user's sign-in.
const (
	browserSuffix   = "-browser"
	browserLifetime = 90 * 24 * time.Hour // since the last sign-in
)

// browserOf returns the id of the browser if it is known for the user, otherwise "".
func (s SignIn) browserOf(r *http.Request, name string) string {
	id, value, found := strings.Cut(s.guard.Cookie(r, browserSuffix), ".")
	if !found {
		return ""
	}
	accounts := s.guard.rules().accounts
	known, ok := accounts.browsers.verify(value, browserLifetime, func(name string) (string, bool) {
		_, known := accounts.users[name]
		return id, known
	})
	if !ok || known != name {
		return ""
	}
	return id
}

// rememberBrowser makes the browser known for a configured user. The id is that of browserOf.
func (s SignIn) rememberBrowser(w http.ResponseWriter, r *http.Request, name, id string) {
	if id == "" {
		id = rand.Text()
	}
	value := s.guard.rules().accounts.browsers.sign(name, id, time.Now().Add(browserLifetime))
	s.guard.SetCookie(w, r, browserSuffix, id+"."+value, browserLifetime)
}
