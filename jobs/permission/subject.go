package permission

import (
	"context"
	"fmt"
)

// Identity is the sender of a request.
type Identity struct {
	Name  string // "" on a server without users
	Role  string
	Proof string // "password", "token", "proxy", "oidc", "program" or "none"
	// Scope limits a token to a part of its role; nil: no limit.
	Scope *Grant
}

// Authorizer decides whether the sender of a request has a permission on a target. It returns nil,
// a *DeniedError, or why it could not decide. An identity that has a permission on Everything must
// have it on all targets. An Authorizer must be safe for concurrent use.
type Authorizer interface {
	Authorize(ctx context.Context, sender Identity, p Permission, t Target) error
}

// Subject is an identity with the Authorizer that decides about it.
type Subject struct {
	Identity
	Authorizer Authorizer
}

// DeniedError says which permission on which target is missing.
type DeniedError struct {
	Identity   Identity
	Permission Permission
	Target     Target
}

// Error names the permission, the target and the role.
func (e *DeniedError) Error() string {
	who := "the role " + e.Identity.Role
	if e.Identity.Scope != nil {
		who = "this token with " + who
	}
	return fmt.Sprintf("permission denied: %s does not have the permission %s on %s", who,
		e.Permission, e.Target)
}

type subjectKey struct{}

// With returns a copy of ctx that has the subject. An action with this context is an action of the
// subject. s.Authorizer must not be nil.
func With(ctx context.Context, s Subject) context.Context {
	return context.WithValue(ctx, subjectKey{}, s)
}

// IdentityOf returns the identity of the context's subject, and false if there is no subject.
func IdentityOf(ctx context.Context) (Identity, bool) {
	s, found := ctx.Value(subjectKey{}).(Subject)
	return s.Identity, found
}

// Require returns nil if the subject of the context has the permission on the target, or if there
// is no subject. Otherwise it returns a *DeniedError, or why the Authorizer could not decide.
func Require(ctx context.Context, p Permission, t Target) error {
	s, found := ctx.Value(subjectKey{}).(Subject)
	if !found {
		return nil
	}
	if s.Scope != nil && !s.Scope.Covers(p, t) {
		return &DeniedError{s.Identity, p, t}
	}
	return s.Authorizer.Authorize(ctx, s.Identity, p, t)
}

// RequireOn is Require for a target that has to be looked up. It looks up the target only if the
// subject does not have the permission on everything.
func RequireOn(ctx context.Context, p Permission,
	target func(context.Context) (Target, error)) error {
	if Require(ctx, p, Target{Kind: Everything}) == nil {
		return nil
	}
	t, err := target(ctx)
	if err != nil {
		return err
	}
	return Require(ctx, p, t)
}

// Allowed are the actions that a page offers.
type Allowed struct{ Trigger, Pause, Cancel, Release, Drain, EditJobs bool }

// Any reports whether the page offers at least one action.
func (a Allowed) Any() bool { return a != Allowed{} }

// AllowedOn returns which actions the subject may perform on the target. An action is false if the
// Authorizer denies it, or if an error prevents the decision.
func AllowedOn(ctx context.Context, target func(context.Context) (Target, error)) Allowed {
	may := func(p Permission) bool { return RequireOn(ctx, p, target) == nil }
	return Allowed{Trigger: may(Trigger), Pause: may(Pause), Cancel: may(Cancel),
		Release: may(Release), Drain: may(Drain), EditJobs: may(EditJobs)}
}
