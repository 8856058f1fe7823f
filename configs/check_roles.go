package configs

import (
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/suggest"
	"github.com/holdfast-dev/holdfast/jobs/permission"
)

// checkRoles checks the roles, and returns the names of all.
func (c *checker) checkRoles(roles []Role) []string {
	var names []string
	for _, r := range permission.Predefined() {
		names = append(names, r.Name)
	}
	for i, r := range roles {
		path := itemPath("admin.roles", i)
		if c.near(path).value.kind != kindMapping {
			continue
		}
		at := keyPath(path, "name")
		switch {
		case !c.sound(at):
		case !isName(r.Name):
			c.fail(at, "found %s, expected %s", c.foundAt(at), nameWords)
		case r.Name == NoRole:
			c.fail(at, "found %s, expected another name: it stands for no role", c.foundAt(at))
		case slices.Contains(names, r.Name):
			c.fail(at, "found %s a second time, expected each role once; %s are predefined",
				c.foundAt(at), strings.Join(names[:len(permission.Predefined())], ", "))
		}
		names = append(names, r.Name)
		c.checkPermissions(r.Permissions, keyPath(path, "permissions"))
		if at := keyPath(path, "permissions"); len(r.Permissions) == 0 && c.sound(at) &&
			(len(r.Include) == 0 || len(r.Groups)+len(r.Jobs)+len(r.Resources) > 0) {
			c.failKey(at, "found no permissions, expected some of %s", permissionNames())
		}
		c.checkLimits(path, "role", limit{"groups", r.Groups}, limit{"jobs", r.Jobs},
			limit{"resources", r.Resources})
	}
	for i, r := range roles {
		for k, other := range r.Include {
			c.checkRoleName(other, itemPath(keyPath(itemPath("admin.roles", i), "include"), k),
				names)
		}
	}
	c.checkIncludes(roles)
	return names
}

// checkIncludes refuses roles that include themselves.
func (c *checker) checkIncludes(roles []Role) {
	include := map[string][]string{}
	for _, r := range roles {
		include[r.Name] = r.Include
	}
	for i, r := range roles {
		reached := slices.Clone(r.Include)
		for k := 0; k < len(reached); k++ {
			for _, other := range include[reached[k]] {
				if !slices.Contains(reached, other) {
					reached = append(reached, other)
				}
			}
		}
		at := keyPath(itemPath("admin.roles", i), "include")
		if slices.Contains(reached, r.Name) && c.sound(at) {
			c.failKey(at, "found roles that include %q again, expected no cycle", r.Name)
		}
	}
}

func (c *checker) checkPermissions(given []string, path string) {
	for i, p := range given {
		if at := itemPath(path, i); c.sound(at) &&
			!slices.Contains(permission.All(), permission.Permission(p)) {
			c.fail(at, "found %s, expected one of %s", c.foundAt(at), permissionNames())
		}
	}
}

func permissionNames() string {
	var names []string
	for _, p := range permission.All() {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

// checkRoleName checks that there is a role of that name.
func (c *checker) checkRoleName(role, path string, names []string) {
	if c.sound(path) && !slices.Contains(names, role) {
		c.fail(path, "unknown role %s%s", c.foundAt(path), suggest.Hint(role, names))
	}
}
