package configs

import (
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/plural"
	"github.com/holdfast-dev/holdfast/internal/runes"
	"github.com/holdfast-dev/holdfast/internal/suggest"
)

// fill replaces each {name} in the name of a resource by the job's param of that name, or reports a
// mistake at path. A value must not contain separators.
func (c *checker) fill(path, name string, params *node, separators string) (string, bool) {
	if !c.sound(path) {
		return "", false
	}
	if !strings.ContainsAny(name, "{}") {
		return name, true
	}
	var out strings.Builder
	for rest := name; ; {
		open := strings.IndexAny(rest, "{}")
		if open < 0 {
			out.WriteString(rest)
			return out.String(), true
		}
		end := strings.IndexAny(rest[open+1:], "{}") + open + 1
		if rest[open] != '{' || end <= open || rest[end] != '}' {
			c.fail(path, "found %s with a brace that has no match, expected {param}",
				c.foundAt(path))
			return "", false
		}
		out.WriteString(rest[:open])
		value, problem := placeholder(rest[open+1:end], params, separators)
		if c.alone && problem == "" && value != nil && value.expanded {
			problem = fmt.Sprintf("found the placeholder {%s} for a param with a variable, "+
				"expected one without: a job that is added does not show values of variables",
				rest[open+1:end])
		}
		if problem != "" {
			c.fail(path, "%s", problem)
			return "", false
		}
		if value == nil { // the param has a mistake of its own
			return "", false
		}
		out.WriteString(value.text)
		rest = rest[end+1:]
	}
}

func placeholder(name string, params *node, separators string) (value *node, problem string) {
	value = params.entry(name)
	if value == nil {
		return nil, fmt.Sprintf("unknown placeholder {%s}, expected %s", name,
			paramNames(name, params))
	}
	if value.kind == kindInvalid {
		return nil, ""
	}
	if !value.scalar() {
		return nil, fmt.Sprintf("found the placeholder {%s} for a param that is %s, expected one "+
			"with text, a number or true or false", name, value.kind)
	}
	bad := func(r rune) bool { return runes.IsControl(r) || strings.ContainsRune(separators, r) }
	if value.text == "" || value.text == "." || value.text == ".." ||
		strings.ContainsFunc(value.text, bad) {
		return nil, fmt.Sprintf("found the placeholder {%s} for the param %s, expected one "+
			"segment: not empty, without %s or control characters, and not . or ..",
			name, value.found(), strings.Join(strings.Split(separators, ""), " "))
	}
	return value, ""
}

func paramNames(name string, params *node) string {
	if len(params.entries) == 0 {
		return "one of the job's params, which has none"
	}
	names := make([]string, len(params.entries))
	for i, e := range params.entries {
		names[i] = e.name
	}
	text := "one of the job's params: " + strings.Join(names, ", ")
	if near := suggest.Of(name, names); near != "" {
		text += fmt.Sprintf("; did you mean {%s}?", near)
	}
	return text
}

func slotWords(slots int) string {
	if slots == 0 {
		return "no slots"
	}
	return plural.Of(slots, "slot", "slots")
}
