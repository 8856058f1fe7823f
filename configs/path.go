package configs

import (
	"strconv"
	"strings"
)

// keyPath returns the path of a mapping's key. It quotes names that are not plain.
func keyPath(parent, name string) string {
	if !plainName(name) {
		name = strconv.Quote(name)
	}
	if parent == "" {
		return name
	}
	return parent + "." + name
}

// itemPath returns the path of a list's element.
func itemPath(parent string, index int) string {
	return parent + "[" + strconv.Itoa(index) + "]"
}

// parentPath returns path without its last step, and "" at the top. A quoted name takes several
// calls.
func parentPath(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

func plainName(name string) bool {
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' &&
			r != '-' {
			return false
		}
	}
	return name != ""
}
