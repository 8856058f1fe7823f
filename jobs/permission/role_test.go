package permission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestMatches(t *testing.T) {
	for _, test := range []struct {
		pattern, name string
		want          bool
	}{
		{"a", "a", true}, {"a", "b", false}, {"*", "", true}, {"*", "a/b", true},
		{"export-*", "export-a/b", true}, {"export-*", "my-export-a", false},
		{"*-export", "a-export", true}, {"a*a", "a", false}, {"a*a", "aba", true},
		{"a*b*c", "axbxxc", true}, {"a*b*c", "acb", false}, {"", "", true}, {"", "a", false},
		{"a*ab", "aab", true}, {"A*", "ab", false},
	} {
		if got := Matches(test.pattern, test.name); got != test.want {
			t.Errorf("%q and %q: got %v", test.pattern, test.name, got)
		}
	}
}

// policyOf returns a policy, or the mistakes in it.
func policyOf(roles ...Role) (*Policy, string) {
	var mistakes []string
	p := NewPolicy(roles, func(format string, args ...any) {
		mistakes = append(mistakes, fmt.Sprintf(format, args...))
	})
	slices.Sort(mistakes)
	return p, strings.Join(mistakes, "; ")
}

func TestPolicy(t *testing.T) {
	policy, mistakes := policyOf(
		Role{Name: "billing", Include: []string{Viewer}, Grant: Grant{
			Permissions: []Permission{Trigger, Pause}, Groups: []string{"billing"},
			Jobs: []string{"export-*"}}},
		Role{Name: "night", Include: []string{"billing"}, Grant: Grant{
			Permissions: []Permission{Release}, Resources: []string{"public/*"}}},
	)
	if mistakes != "" {
		t.Fatalf("got mistakes %s, want none", mistakes)
	}
	all, some := Target{Kind: Everything}, Target{Kind: Something}
	invoices, export := Target{Job, "invoices", "billing"}, Target{Job, "export-a", ""}
	other, orders := Target{Job, "other", ""}, Target{Resource, "public/orders", ""}
	for _, test := range []struct {
		role string
		need Permission
		on   []Target
		not  []Target
	}{
		{Viewer, View, []Target{all, some, other, orders}, nil},
		{Viewer, ViewOutput, []Target{all, other}, nil},
		{Viewer, Trigger, nil, []Target{all, some, other, export}},
		{TriggerRole, Trigger, []Target{all, some, other}, nil},
		{TriggerRole, Pause, nil, []Target{all, some, other}},
		{Operator, EditJobs, []Target{all, some, other}, nil},
		{MetricsReader, ViewMetrics, []Target{all}, nil},
		{MetricsReader, View, nil, []Target{all, some, other}},
		{"billing", View, []Target{all, other}, nil},
		{"billing", Trigger, []Target{some, invoices, export}, []Target{all, other, orders}},
		{"billing", Pause, []Target{{Group, "billing", ""}}, []Target{{Group, "night", ""}}},
		{"billing", Cancel, nil, []Target{some, invoices}},
		{"night", Trigger, []Target{invoices}, []Target{other}},
		{"night", Release, []Target{orders}, []Target{all, {Resource, "x/y", ""}, invoices}},
		{"nobody", View, nil, []Target{all, some, other}},
		{"", View, nil, []Target{all, some}},
	} {
		ctx := With(context.Background(), Subject{Identity{Role: test.role}, policy})
		for _, target := range test.on {
			if err := Require(ctx, test.need, target); err != nil {
				t.Error(err)
			}
		}
		for _, target := range test.not {
			var denied *DeniedError
			if err := Require(ctx, test.need, target); !errors.As(err, &denied) {
				t.Errorf("%s %s on %s: got %v", test.role, test.need, target, err)
			} else if denied.Permission != test.need || denied.Target != target {
				t.Errorf("got %v", denied)
			}
		}
	}
}

func TestScope(t *testing.T) {
	policy, _ := policyOf()
	ctx := With(context.Background(), Subject{Identity{Role: Operator, Scope: &Grant{
		Permissions: []Permission{Trigger, View}, Jobs: []string{"a*"}}}, policy})
	if err := Require(ctx, Trigger, Target{Job, "ab", ""}); err != nil {
		t.Error(err)
	}
	for need, target := range map[Permission]Target{Trigger: {Job, "b", ""},
		View: {Kind: Everything}, Pause: {Job, "ab", ""}} {
		if err := Require(ctx, need, target); err == nil {
			t.Errorf("%s on %s is in the scope", need, target)
		}
	}
	// a scope adds nothing to a role
	ctx = With(context.Background(), Subject{Identity{Role: Viewer, Scope: &Grant{}}, policy})
	if err := Require(ctx, Trigger, Target{Job, "ab", ""}); err == nil {
		t.Error("got the permission to trigger for a viewer with a scope, want an error")
	}
}

func TestMistakesOfRoles(t *testing.T) {
	for want, roles := range map[string][]Role{
		`role 1 has no name`: {{Grant: Grant{Permissions: All()}}},
		`role "viewer" is there twice, or is predefined`: {{Name: Viewer,
			Grant: Grant{Permissions: All()}}},
		`role "a" has no permissions and includes no roles`: {{Name: "a"}},
		`role "a" includes "b", which does not exist`:       {{Name: "a", Include: []string{"b"}}},
		`role "a" has patterns, but no permissions`: {{Name: "a",
			Include: []string{Viewer}, Grant: Grant{Jobs: []string{"a"}}}},
		`role "a" includes itself; role "b" includes itself`: {{Name: "a",
			Include: []string{"b"}}, {Name: "b", Include: []string{"a"}}},
	} {
		if _, got := policyOf(roles...); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	_, got := policyOf(Role{Name: "a", Grant: Grant{Permissions: []Permission{"fly"}}})
	if !strings.Contains(got, `role "a": the permission is "fly", expected one of [view `) {
		t.Errorf("got %s", got)
	}
}
