package access

import (
	"context"
	"net/http"
)

// Role is a set of permissions.
type Role string

// The roles.
const (
	Viewer   Role = "viewer"   // reads
	Operator Role = "operator" // reads and acts
	Scraper  Role = "metrics"  // reads only the metrics; for tokens
)

func (r Role) known() bool { return r == Viewer || r == Operator }

// Identity is the sender of a request.
type Identity struct {
	Name string // "" on a server without users
	Role Role   // "" without proof of identity
	By   Proof
}

// Proof is how the sender was identified.
type Proof string

// The proofs.
const (
	ByPassword Proof = "password" // a cookie of a sign-in
	ByToken    Proof = "token"
	ByProxy    Proof = "proxy"
	ByLoopback Proof = "loopback" // the server has no users
)

// unauthenticated reports whether the request had no proof of identity.
func (i Identity) unauthenticated() bool { return i.Role == "" }

// SignsOut reports whether there is a sign-in that can be ended here.
func (i Identity) SignsOut() bool { return i.By == ByPassword }

type identityKey struct{}

// IdentityOf returns the sender of a request that was admitted.
func IdentityOf(r *http.Request) Identity {
	identity, _ := r.Context().Value(identityKey{}).(Identity)
	return identity
}

func withIdentity(r *http.Request, i Identity) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), identityKey{}, i))
}
