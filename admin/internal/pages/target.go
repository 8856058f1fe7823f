package pages

import (
	"context"

	"github.com/holdfast-dev/holdfast/jobs/permission"
)

// Target looks up what a page is about.
type Target = func(context.Context) (permission.Target, error)

type targetKey struct{}

// WithTarget returns a context of requests about the target.
func WithTarget(ctx context.Context, t Target) context.Context {
	return context.WithValue(ctx, targetKey{}, t)
}

// targetOf returns what the request is about: something, if it is about no single target.
func targetOf(ctx context.Context) Target {
	if t, found := ctx.Value(targetKey{}).(Target); found {
		return t
	}
	return func(context.Context) (permission.Target, error) {
		return permission.Target{Kind: permission.Something}, nil
	}
}

func everything(context.Context) (permission.Target, error) {
	return permission.Target{Kind: permission.Everything}, nil
}

// AllowedOnSome returns the actions that the sender of the request may perform on at least one of
// the targets that a list shows.
func AllowedOnSome(ctx context.Context) permission.Allowed {
	target := targetOf(ctx)
	return permission.AllowedOn(ctx, func(ctx context.Context) (permission.Target, error) {
		t, err := target(ctx)
		if t.Kind == permission.Everything {
			t.Kind = permission.Something
		}
		return t, err
	})
}

// May reports whether the sender of the request has the permission on the target of the request, or
// on everything if the request is about no single target.
func May(ctx context.Context, p permission.Permission) bool {
	target, found := ctx.Value(targetKey{}).(Target)
	if !found {
		target = everything
	}
	return permission.RequireOn(ctx, p, target) == nil
}
