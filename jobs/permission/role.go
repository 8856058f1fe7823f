package permission

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Grant gives permissions on targets. Without Groups, Jobs and Resources, it gives them on all
// targets. A pattern is a name in which each * stands for any text.
type Grant struct {
	Permissions []Permission // none: all
	Groups      []string     // patterns of groups, with their jobs
	Jobs        []string     // patterns of jobs
	Resources   []string     // patterns of resources, such as public/*
}

// Covers reports whether the grant has the permission on the target.
func (g *Grant) Covers(p Permission, t Target) bool {
	if len(g.Permissions) > 0 && !slices.Contains(g.Permissions, p) {
		return false
	}
	if len(g.Groups)+len(g.Jobs)+len(g.Resources) == 0 {
		return true
	}
	switch t.Kind {
	case Something:
		return true
	case Job:
		return anyMatches(g.Jobs, t.Name) || t.Group != "" && anyMatches(g.Groups, t.Group)
	case Group:
		return anyMatches(g.Groups, t.Name)
	case Resource:
		return anyMatches(g.Resources, t.Name)
	}
	return false
}

func anyMatches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return Matches(p, name) })
}

// Matches reports whether a name matches a pattern of a Grant.
func Matches(pattern, name string) bool {
	first, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == name
	}
	name, found := strings.CutPrefix(name, first)
	if !found {
		return false
	}
	parts := strings.Split(rest, "*")
	for _, part := range parts[:len(parts)-1] {
		at := strings.Index(name, part)
		if at < 0 {
			return false
		}
		name = name[at+len(part):]
	}
	return strings.HasSuffix(name, parts[len(parts)-1])
}

// Role is a named Grant that may include other roles.
type Role struct {
	Name string
	Grant
	Include []string // names of other roles
}

// The predefined roles.
const (
	Viewer        = "viewer"   // reads everything but params of jobs and specs of added jobs
	TriggerRole   = "trigger"  // reads like a viewer, and triggers jobs
	Operator      = "operator" // may do everything
	MetricsReader = "metrics"  // reads only the metrics
)

// Predefined returns the roles that need no configuration.
func Predefined() []Role {
	reads := []Permission{View, ViewOutput, ViewParams, ViewMetrics}
	return []Role{
		{Name: Viewer, Grant: Grant{Permissions: reads}},
		{Name: TriggerRole, Grant: Grant{Permissions: append(slices.Clip(reads), Trigger)}},
		{Name: Operator, Grant: Grant{Permissions: All()}},
		{Name: MetricsReader, Grant: Grant{Permissions: []Permission{ViewMetrics}}},
	}
}

// Policy decides by roles. It is immutable.
type Policy struct{ grants map[string][]Grant }

// NewPolicy returns the policy of the predefined roles and the given ones. It calls bad for each
// mistake in the given ones. After a mistake, do not use the policy.
func NewPolicy(roles []Role, bad func(format string, args ...any)) *Policy {
	all := Predefined()
	known := map[string]Role{}
	for i, r := range append(all, roles...) {
		own := i >= len(all)
		_, twice := known[r.Name]
		switch {
		case r.Name == "":
			bad("role %d has no name", i-len(all)+1)
		case twice:
			bad("role %q is there twice, or is predefined", r.Name)
		case own && len(r.Permissions) == 0 && len(r.Include) == 0:
			bad("role %q has no permissions and includes no roles", r.Name)
		}
		for _, p := range r.Permissions {
			if !slices.Contains(All(), p) {
				bad("role %q: the permission is %q, expected one of %v", r.Name, p, All())
			}
		}
		if len(r.Permissions) == 0 && len(r.Groups)+len(r.Jobs)+len(r.Resources) > 0 {
			bad("role %q has patterns, but no permissions", r.Name)
		}
		known[r.Name] = r
	}
	policy := &Policy{grants: make(map[string][]Grant)}
	for name := range known {
		var err error
		if policy.grants[name], err = grantsOf(known, name, nil); err != nil {
			bad("%s", err)
		}
	}
	return policy
}

// grantsOf returns the grants of a role with those of the roles that it includes. Path has the
// roles that include it.
func grantsOf(known map[string]Role, name string, path []string) ([]Grant, error) {
	role, found := known[name]
	switch {
	case !found:
		return nil, fmt.Errorf("role %q includes %q, which does not exist", path[len(path)-1], name)
	case slices.Contains(path, name):
		return nil, fmt.Errorf("role %q includes itself", name)
	}
	var grants []Grant
	if len(role.Permissions) > 0 {
		grants = append(grants, role.Grant)
	}
	for _, other := range role.Include {
		more, err := grantsOf(known, other, append(slices.Clip(path), name))
		if err != nil {
			return nil, err
		}
		grants = append(grants, more...)
	}
	return grants, nil
}

// Has reports whether there is a role of that name.
func (p *Policy) Has(role string) bool {
	_, found := p.grants[role]
	return found
}

// Authorize implements Authorizer.
func (p *Policy) Authorize(_ context.Context, sender Identity, need Permission, t Target) error {
	for _, g := range p.grants[sender.Role] {
		if g.Covers(need, t) {
			return nil
		}
	}
	return &DeniedError{sender, need, t}
}
