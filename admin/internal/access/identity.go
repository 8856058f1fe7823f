package access

import (
	"cmp"
	"context"
	"net/http"

	"github.com/holdfast-dev/holdfast/jobs/permission"
)

// Role is the name of a set of permissions.
type Role string

// Predefined roles.
const (
	Viewer        Role = permission.Viewer
	Operator      Role = permission.Operator
	TriggerRole   Role = permission.TriggerRole
	MetricsReader Role = permission.MetricsReader
)

// Identity is the sender of a request.
type Identity struct {
	Name string // "" on a server without users
	Role Role   // "" without proof of identity
	By   Proof
	// Scope limits a token to a part of its role; nil: no limit.
	Scope *permission.Grant

	generation int64 // of the sign-in cookie; 0 without one
}

// Proof is how the sender was identified.
type Proof string

// The proofs.
const (
	ByPassword Proof = "password" // a cookie of a sign-in
	ByToken    Proof = "token"
	ByOIDC     Proof = "oidc" // a cookie of a sign-in by OpenID Connect
	ByProxy    Proof = "proxy"
	ByProgram  Proof = "program"  // by Policy.Authenticate
	ByLoopback Proof = "loopback" // the server has no users
)

// unauthenticated reports whether the request had no proof of identity.
func (i Identity) unauthenticated() bool { return i.Role == "" }

// SignsOut reports whether there is a sign-in that can be ended here.
func (i Identity) SignsOut() bool { return i.By == ByPassword || i.By == ByOIDC }

// subject returns the identity as the authorizer gets it.
func (i Identity) subject(by permission.Authorizer) permission.Subject {
	proof := i.By
	if proof == ByLoopback {
		proof = ""
	}
	return permission.Subject{Authorizer: by, Identity: permission.Identity{Name: i.Name,
		Role: string(i.Role), Proof: cmp.Or(string(proof), "none"), Scope: i.Scope}}
}

type identityKey struct{}

// IdentityOf returns the sender of a request that was admitted.
func IdentityOf(r *http.Request) Identity {
	identity, _ := r.Context().Value(identityKey{}).(Identity)
	return identity
}

// withIdentity returns the request with its sender, about whose permissions the authorizer decides.
func withIdentity(r *http.Request, i Identity, by permission.Authorizer) *http.Request {
	ctx := permission.With(r.Context(), i.subject(by))
	return r.WithContext(context.WithValue(ctx, identityKey{}, i))
}
