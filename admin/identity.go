package admin

import (
	"context"
	"net/http"
)

// Role is what somebody may do.
type Role string

// The roles.
const (
	Viewer   Role = "viewer"   // reads
	Operator Role = "operator" // reads and acts
	Scraper  Role = "metrics"  // reads the metrics and nothing else; for tokens only
)

func (r Role) known() bool { return r == Viewer || r == Operator }

// Identity is who sends a request.
type Identity struct {
	Name string // "" where the server has no users, and so everybody is let in
	Role Role   // "" for a stranger
	By   Proof
}

// Proof is how somebody is known.
type Proof string

// The proofs.
const (
	ByPassword Proof = "password" // signed in, and has the cookie that says so
	ByToken    Proof = "token"
	ByProxy    Proof = "proxy"
	ByLoopback Proof = "loopback" // nobody is told apart
)

// unauthenticated reports whether the request showed nothing to be known by.
func (i Identity) unauthenticated() bool { return i.Role == "" }

// SignsOut reports whether there is a sign-in of ours to end.
func (i Identity) SignsOut() bool { return i.By == ByPassword }

type identityKey struct{}

// identityOf returns who sent a request that was admitted.
func identityOf(r *http.Request) Identity {
	identity, _ := r.Context().Value(identityKey{}).(Identity)
	return identity
}

func withIdentity(r *http.Request, i Identity) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), identityKey{}, i))
}
