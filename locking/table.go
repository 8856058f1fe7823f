package locking

import (
	"fmt"
	"strings"
)

// Table returns the resource of a table by PostgreSQL's rules: unquoted parts
// fold to lower case, "quoted" parts keep theirs, and a name without a schema
// belongs to defaultSchema. "schema.*" names the schema with all its tables.
// So Orders, orders and public.orders are one lock.
func Table(name, defaultSchema string) (Resource, error) {
	parts, err := splitIdentifier(name)
	if err != nil {
		return Resource{}, err
	}
	switch {
	case len(parts) == 1:
		parts = []string{defaultSchema, parts[0]}
	case len(parts) == 2 && parts[1] == "*":
		parts = parts[:1]
	case len(parts) > 2:
		return Resource{}, fmt.Errorf("%w: table %q has %d parts, expected table or schema.table", ErrBadName, name, len(parts))
	}
	for _, part := range parts {
		if strings.Contains(part, "/") {
			return Resource{}, fmt.Errorf("%w: table %q has a slash", ErrBadName, name)
		}
	}
	return newResource(KindTable, strings.Join(parts, "/"))
}

// splitIdentifier splits a possibly quoted, possibly qualified identifier at
// its dots and folds what is not quoted.
func splitIdentifier(name string) ([]string, error) {
	var parts []string
	rest := name
	for {
		var part string
		if strings.HasPrefix(rest, `"`) {
			end := closingQuote(rest)
			if end < 0 {
				return nil, fmt.Errorf("%w: table %q has an unclosed quote", ErrBadName, name)
			}
			part, rest = strings.ReplaceAll(rest[1:end], `""`, `"`), rest[end+1:]
			if rest != "" && rest[0] != '.' {
				return nil, fmt.Errorf("%w: table %q has text after a closing quote", ErrBadName, name)
			}
		} else {
			end := strings.IndexByte(rest, '.')
			if end < 0 {
				end = len(rest)
			}
			part, rest = strings.ToLower(rest[:end]), rest[end:]
			if strings.ContainsAny(part, "\" \t") {
				return nil, fmt.Errorf("%w: table %q needs double quotes around a part with spaces or quotes", ErrBadName, name)
			}
		}
		if part == "" {
			return nil, fmt.Errorf("%w: table %q has an empty part", ErrBadName, name)
		}
		parts = append(parts, part)
		if rest == "" {
			return parts, nil
		}
		rest = rest[1:]
	}
}

// closingQuote returns the index of the quote that ends the identifier that
// starts at s[0], passing doubled ones, or -1.
func closingQuote(s string) int {
	for i := 1; i < len(s); i++ {
		if s[i] != '"' {
			continue
		}
		if i+1 < len(s) && s[i+1] == '"' {
			i++
			continue
		}
		return i
	}
	return -1
}
