package configs

import (
	"fmt"
	"regexp"
	"strings"
)

// variable matches what may follow "${".
var variable = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)

// fault is a mistake in a scalar: the message, and the text at its position.
type fault struct{ mark, message string }

// expand replaces ${NAME} and ${NAME:-default} in s by the results of lookup, and $${ by ${. It
// also returns whether s has variables, and all mistakes.
func expand(s string, lookup func(string) (string, bool)) (
	value string, expanded bool, faults []fault) {
	var out strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			out.WriteString(s)
			return out.String(), expanded, faults
		}
		if i > 0 && s[i-1] == '$' {
			out.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		out.WriteString(s[:i])
		s = s[i+2:]
		expanded = true
		match := variable.FindStringSubmatch(s)
		if match == nil {
			faults = append(faults, fault{"${", "found ${ without a variable's name and }, " +
				"expected ${NAME} or ${NAME:-default}; a literal ${ is written $${"})
			continue
		}
		text, problem := resolve(match, lookup)
		if problem != "" {
			faults = append(faults, fault{"${" + match[1], problem})
		}
		out.WriteString(text)
		s = s[len(match[0]):]
	}
}

func resolve(match []string, lookup func(string) (string, bool)) (value, problem string) {
	name, fallback := match[1], match[3]
	if strings.Contains(fallback, "${") {
		return "", fmt.Sprintf("found a variable within the default of ${%s}, expected plain text",
			name)
	}
	found, set := lookup(name)
	switch {
	case set && (found != "" || match[2] == ""):
		return found, ""
	case match[2] != "":
		return fallback, ""
	}
	return "", fmt.Sprintf("environment variable %s is not set, expected a value for it or a "+
		"default: ${%s:-default}", name, name)
}
