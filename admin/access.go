package admin

import (
	"errors"

	"github.com/holdfast-dev/holdfast/admin/internal/access"
)

// The types of Options that say who may use the server.
type (
	// Access is the part of Options that says who may use the server, and to which host names it
	// answers. It can be replaced while the server runs.
	Access = access.Policy
	// User may sign in to the pages.
	User = access.User
	// Token gives a client access to the API.
	Token = access.Token
	// Proxy is a load balancer in front of the server that names the client, and possibly the user.
	Proxy = access.Proxy
	// OIDC is an OpenID Connect provider that signs people in.
	OIDC = access.OIDC
	// OIDCGroup gives the members of a group of a provider a role.
	OIDCGroup = access.OIDCGroup
	// Role is the name of a set of permissions.
	Role = access.Role
	// Certificate names the PEM files of the server's certificate chain and key. They are read
	// again when they change.
	Certificate = access.CertificateFiles
)

// The predefined roles, as in package permission.
const (
	Viewer        = access.Viewer        // reads
	Operator      = access.Operator      // reads and performs actions
	TriggerRole   = access.TriggerRole   // reads, and triggers jobs
	MetricsReader = access.MetricsReader // reads only the metrics; for tokens
)

// CheckAccess returns the error that New would return for this access, or nil.
func (s *Server) CheckAccess(a Access) error {
	if err := s.checkAccess(a); err != nil {
		return err
	}
	return s.site.Guard.Try(a)
}

// SetAccess replaces the access from the next request on. If CheckAccess refuses a, SetAccess
// returns its error and changes nothing. Users who were removed or have another password must sign
// in again. Counts of failed sign-ins are kept.
func (s *Server) SetAccess(a Access) error {
	if err := s.checkAccess(a); err != nil {
		return err
	}
	return s.site.Guard.Set(a)
}

func (s *Server) checkAccess(a Access) error {
	o := s.options
	o.Hosts, o.Users, o.Tokens, o.Proxy, o.OIDC, o.CookieKeys = a.Hosts, a.Users, a.Tokens, a.Proxy,
		a.OIDC, a.CookieKeys
	o.Roles, o.Authorizer = a.Roles, a.Authorizer
	o.Authenticate, o.SignInURL = a.Authenticate, a.SignInURL
	if err := o.check(); err != nil {
		return err
	}
	s.mu.Lock()
	listener := s.listener
	s.mu.Unlock()
	if listener != nil && !a.Guarded() && beyondLoopback(listener.Addr()) {
		return errors.Join(ErrOptions, &ExposedError{Address: o.Listen})
	}
	return nil
}
