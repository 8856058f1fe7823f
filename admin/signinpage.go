package admin

import (
	"net/http"

	"github.com/holdfast-dev/holdfast/admin/internal/access"
)

// signInView is the sign-in page.
type signInView struct {
	Frame
	access.SignInForm
}

// accessPages answers requests that are not admitted.
type accessPages struct{ server *Server }

// Refuse is Server.refuse.
func (p accessPages) Refuse(w http.ResponseWriter, r *http.Request, status int, text string) {
	p.server.refuse(w, r, status, text)
}

// SignIn shows the sign-in page.
func (p accessPages) SignIn(w http.ResponseWriter, status int, form access.SignInForm) {
	p.server.pages.write(w, p.server.log, status, "signin.html",
		signInView{Frame{Title: "Sign in"}, form})
}
