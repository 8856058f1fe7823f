package holdfast_test

import (
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/cli"
	"github.com/holdfast-dev/holdfast/jobs/permission"
)

// Teams decides by the teams of a person. The team "billing" may do everything with the jobs of the
// group "billing", and so on. Everybody who is in the map may read. The team "operations" may do
// everything.
type Teams map[string][]string // by the name of the person

// Authorize returns nil, or a *permission.DeniedError.
func (t Teams) Authorize(_ context.Context, sender permission.Identity, p permission.Permission,
	target permission.Target) error {
	teams, known := t[sender.Name]
	// Give these answers before you look at the target, because an identity that has a permission
	// on Everything must have it on all targets.
	if known && p == permission.View || slices.Contains(teams, "operations") {
		return nil
	}
	switch target.Kind {
	case permission.Group:
		if slices.Contains(teams, target.Name) {
			return nil
		}
	case permission.Job: // Group is "" if the job has none, or if it is not known
		if target.Group != "" && slices.Contains(teams, target.Group) {
			return nil
		}
	case permission.Something: // at least one target
		if len(teams) > 0 {
			return nil
		}
	}
	return &permission.DeniedError{Identity: sender, Permission: p, Target: target}
}

func ExampleWithAuthorizer() {
	cli.Main(holdfast.WithAuthorizer(Teams{"anna": {"billing"}, "bob": {"operations"}}))
}
