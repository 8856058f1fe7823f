package access

import (
	"net/http"
	"net/url"

	"github.com/holdfast-dev/holdfast/admin/internal/mount"
	"github.com/holdfast-dev/holdfast/jobs/permission"
)

// Visitor is the sender of a request, as the authentication of a program knows it. The zero Visitor
// is a sender who is not signed in.
type Visitor struct {
	Name string // for the audit log: at most 200 bytes, without control characters
	Role Role
	// Scope limits the visitor to a part of the role; nil: no limit.
	Scope *permission.Grant
}

// checkProgram calls bad for each mistake.
func (p *Policy) checkProgram(bad func(format string, args ...any)) {
	switch {
	case p.Authenticate == nil && p.SignInURL != "":
		bad("the sign-in URL %q needs Authenticate", p.SignInURL)
	case p.Authenticate != nil && (len(p.Users) > 0 || len(p.Tokens) > 0 || p.OIDC != nil ||
		p.Proxy.names()):
		bad("found Authenticate and users, tokens, OpenID Connect or a proxy that names users, " +
			"expected one of them")
	}
	if _, err := url.Parse(p.SignInURL); err != nil {
		bad("the sign-in URL: %w", err)
	}
}

// byProgram returns the sender of a request as the program knows it.
func (a *accounts) byProgram(r *http.Request) (Identity, error) {
	visitor, err := a.authenticate(r)
	switch {
	case err != nil:
		return Identity{}, &refusal{status: http.StatusServiceUnavailable, cause: err,
			text: "The service could not check the sign-in. Try again in a moment."}
	case visitor.Name == "":
		return Identity{}, nil
	case !isUserName(visitor.Name):
		return Identity{}, &refusal{status: http.StatusForbidden, text: "The name of the user " +
			"has more than 200 bytes or an invisible character."}
	case visitor.Role == "":
		return Identity{}, &refusal{status: http.StatusForbidden,
			text: "Your account may not use this page."}
	}
	return Identity{Name: visitor.Name, Role: visitor.Role, By: ByProgram,
		Scope: visitor.Scope}, nil
}

// signInAtProgram sends a browser to the sign-in of the program, which leads back to the page.
func (g *Guard) signInAtProgram(w http.ResponseWriter, r *http.Request, signIn string) {
	target, err := url.Parse(signIn)
	if err != nil { // Policy.Check refuses such a URL
		g.pages.Refuse(w, r, http.StatusInternalServerError, "The sign-in URL is wrong.")
		return
	}
	query := target.Query()
	query.Set("next", string(g.prefix)+r.URL.RequestURI())
	target.RawQuery = query.Encode()
	mount.LeaveLocation(r)
	http.Redirect(w, r, target.String(), http.StatusSeeOther)
}
