package configs

import (
	"fmt"
	"slices"
	"strings"
)

// fault is a mistake in a scalar: the message, and the text at its position.
type fault struct{ mark, message string }

// environment is where variables come from.
type environment struct {
	lookup func(string) (string, bool)
	// added says that only the variables in allowed may be used, because a job is added at run time
	added   bool
	allowed []string
}

// expand replaces ${NAME} and ${NAME:-default} in s by values of env, and $${ by ${. It also
// returns the variables and all mistakes. It takes linear time.
func expand(s string, env environment) (value string, used usedVariables, faults []fault) {
	if !strings.Contains(s, "${") {
		return s, usedVariables{}, nil
	}
	var out strings.Builder
	closed := strings.LastIndexByte(s, '}') // no variable ends behind it
	for at := 0; ; {
		i := strings.Index(s[at:], "${")
		if i < 0 {
			out.WriteString(s[at:])
			return out.String(), used, faults
		}
		if i += at; i > at && s[i-1] == '$' {
			out.WriteString(s[at:i-1] + "${")
			at = i + 2
			continue
		}
		out.WriteString(s[at:i])
		at, used.any = i+2, true
		v, length := parseVariable(s[at:max(closed+1, at)])
		if length == 0 {
			faults = append(faults, fault{"${", "found ${ without a variable's name and }, " +
				"expected ${NAME} or ${NAME:-default}; a literal ${ is written $${"})
			continue
		}
		text, fromEnv, problem := v.resolve(env)
		if problem != "" {
			faults = append(faults, fault{"${" + v.name, problem})
		}
		if fromEnv {
			used.values = append(used.values, text)
		}
		out.WriteString(text)
		at += length
	}
}

// usedVariables are those of a scalar.
type usedVariables struct {
	any    bool     // there are some
	values []string // of the environment, which may be secret
}

// variable is what stands between ${ and }.
type variable struct {
	name, fallback string
	optional       bool // there is a fallback
}

// parseVariable parses what may follow "${" in s, up to its }. s is empty or ends with }. The
// length is 0 if s does not begin with a variable.
func parseVariable(s string) (v variable, length int) {
	end := strings.IndexFunc(s, func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
	if end <= 0 || s[0] >= '0' && s[0] <= '9' {
		return variable{}, 0
	}
	v.name = s[:end]
	if s[end] == '}' {
		return v, end + 1
	}
	rest, optional := strings.CutPrefix(s[end:], ":-")
	if !optional {
		return variable{}, 0
	}
	closing := strings.IndexByte(rest, '}') // there is one: s ends with it
	v.fallback, v.optional = rest[:closing], true
	return v, end + len(":-") + closing + 1
}

// resolve returns the value, whether it is from the environment, and the mistake if there is any.
func (v variable) resolve(env environment) (value string, fromEnv bool, problem string) {
	if env.added && !slices.Contains(env.allowed, v.name) {
		return "", false, fmt.Sprintf("found the variable %s, expected one of "+
			"added_jobs.allowed_env: a job that is added at run time may use only these", v.name)
	}
	if strings.Contains(v.fallback, "${") {
		return "", false, fmt.Sprintf("found a variable within the default of ${%s}, expected "+
			"plain text", v.name)
	}
	found, set := env.lookup(v.name)
	switch {
	case set && (found != "" || !v.optional):
		return found, true, ""
	case v.optional:
		return v.fallback, false, ""
	}
	return "", false, fmt.Sprintf("environment variable %s is not set, expected a value for it "+
		"or a default: ${%s:-default}", v.name, v.name)
}
