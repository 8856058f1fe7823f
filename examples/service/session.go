package main

import (
	"crypto/rand"
	"crypto/subtle"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/admin"
)

// sessions are the service's own sign-ins, in memory. It may be used concurrently.
type sessions struct {
	password string

	mu    sync.Mutex
	users map[string]string // by the value of the cookie
}

const sessionCookie = "session"

// user returns the user of a request, or "".
func (s *sessions) user(r *http.Request) string {
	cookie, err := r.Cookie(sessionCookie)
	if err != nil {
		return "" // there is no cookie
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.users[cookie.Value]
}

// visitor is the authentication of the admin page. Everybody who is signed in is an operator.
func (s *sessions) visitor(r *http.Request) (admin.Visitor, error) {
	name := s.user(r)
	if name == "" {
		return admin.Visitor{}, nil
	}
	return admin.Visitor{Name: name, Role: admin.Operator}, nil
}

func signInForm() *template.Template {
	return template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><title>Sign in</title>
<form method="post"><input type="hidden" name="next" value="{{.}}">
<label>Name <input name="user"></label>
<label>Password <input name="password" type="password"></label>
<button>Sign in</button></form></html>
`))
}

// show shows the form to sign in.
func (s *sessions) show(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := signInForm().Execute(w, r.FormValue("next")); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// signIn signs the user of the form in.
func (s *sessions) signIn(w http.ResponseWriter, r *http.Request) {
	name, password := r.PostFormValue("user"), r.PostFormValue("password")
	if name == "" || s.password == "" ||
		subtle.ConstantTimeCompare([]byte(password), []byte(s.password)) != 1 {
		http.Error(w, "The name or the password is wrong.", http.StatusForbidden)
		return
	}
	id := rand.Text()
	s.mu.Lock()
	s.users[id] = name
	s.mu.Unlock()
	// Behind a load balancer with TLS, set Secure in any case. A service with several replicas must
	// store sign-ins in the database, and end them after some time.
	http.SetCookie(w, &http.Cookie{Name: sessionCookie, Value: id, Path: "/", HttpOnly: true,
		Secure: r.TLS != nil, SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, localPath(r.PostFormValue("next")), http.StatusSeeOther)
}

// localPath returns an address of this service, or / instead of another one.
func localPath(next string) string {
	target, err := url.Parse(next)
	if err != nil || target.Host != "" || target.Scheme != "" || !strings.HasPrefix(next, "/") ||
		strings.HasPrefix(next, "//") || strings.Contains(next, `\`) {
		return "/"
	}
	return next
}
