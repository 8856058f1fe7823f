package pages

import (
	"net/http"

	"github.com/holdfast-dev/holdfast/admin/internal/access"
)

// signInView is the sign-in page.
type signInView struct {
	Frame
	access.SignInForm
}

// SignIn shows the form to sign in.
func (s *Site) SignIn(w http.ResponseWriter, r *http.Request, status int,
	form access.SignInForm) {
	s.Write(w, status, "signin.html", signInView{
		Frame{Title: "Sign in", Theme: s.themeOf(r)}, form})
}
