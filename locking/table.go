package locking

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxIdentifierBytes is the length to which PostgreSQL cuts identifiers.
const maxIdentifierBytes = 63

// Table returns the resource of a table by PostgreSQL's rules:
//   - ASCII letters of unquoted parts are folded to lower case.
//   - Each part is cut to 63 bytes.
//   - A name without a schema belongs to defaultSchema.
//   - "schema.*" names the schema with all its tables.
//
// So Orders, orders and public.orders are one lock.
func Table(name, defaultSchema string) (Resource, error) {
	return TableIn("", name, defaultSchema)
}

// TableIn is Table for a table in a named database, such as "warehouse". Its path is
// warehouse:public/orders. With the database "", it is Table.
func TableIn(database, name, defaultSchema string) (Resource, error) {
	if !utf8.ValidString(name) {
		return Resource{}, fmt.Errorf("%w: table %q is not valid UTF-8", ErrBadName, name)
	}
	parts, err := splitIdentifier(name)
	if err != nil {
		return Resource{}, err
	}
	var path []string
	switch {
	case len(parts) == 1 && !parts[0].star():
		path = []string{defaultSchema, parts[0].text}
	case len(parts) == 2 && parts[1].star():
		path = []string{parts[0].text}
	case len(parts) == 2:
		path = []string{parts[0].text, parts[1].text}
	case len(parts) == 1:
		return Resource{}, fmt.Errorf("%w: table %q needs its schema: schema.*", ErrBadName, name)
	default:
		return Resource{}, fmt.Errorf("%w: table %q has %d parts, expected table or schema.table",
			ErrBadName, name, len(parts))
	}
	for _, part := range path {
		if strings.Contains(part, "/") {
			return Resource{}, fmt.Errorf("%w: table %q has a slash", ErrBadName, name)
		}
	}
	if database != "" {
		path[0] = database + ":" + path[0]
	}
	return newResource(KindTable, strings.Join(path, "/"))
}

// identifier is one part of a name, folded.
type identifier struct {
	text   string
	quoted bool
}

// star reports whether the part stands for all tables of a schema.
func (i identifier) star() bool { return i.text == "*" && !i.quoted }

// splitIdentifier splits a possibly quoted, possibly qualified identifier at
// its dots and folds what is not quoted.
func splitIdentifier(name string) ([]identifier, error) {
	var parts []identifier
	for rest := name; ; rest = rest[1:] {
		var part identifier
		var err error
		if strings.HasPrefix(rest, `"`) {
			part, rest, err = quotedPart(name, rest)
		} else {
			part, rest, err = plainPart(name, rest)
		}
		if err != nil {
			return nil, err
		}
		if part.text == "" {
			return nil, fmt.Errorf("%w: table %q has an empty part", ErrBadName, name)
		}
		part.text = cutIdentifier(part.text)
		parts = append(parts, part)
		if rest == "" {
			return parts, nil
		}
	}
}

func quotedPart(name, rest string) (part identifier, after string, err error) {
	end := closingQuote(rest)
	if end < 0 {
		return identifier{}, "", fmt.Errorf("%w: table %q has an unclosed quote", ErrBadName, name)
	}
	part, after = identifier{strings.ReplaceAll(rest[1:end], `""`, `"`), true}, rest[end+1:]
	if after != "" && after[0] != '.' {
		return identifier{}, "", fmt.Errorf("%w: table %q has text after a closing quote",
			ErrBadName, name)
	}
	return part, after, nil
}

func plainPart(name, rest string) (part identifier, after string, err error) {
	end := strings.IndexByte(rest, '.')
	if end < 0 {
		end = len(rest)
	}
	part, after = identifier{strings.Map(foldASCII, rest[:end]), false}, rest[end:]
	if strings.ContainsAny(part.text, "\" \t") {
		return identifier{}, "", fmt.Errorf("%w: table %q needs double quotes around a part with "+
			"spaces or quotes", ErrBadName, name)
	}
	if strings.Contains(part.text, "*") && (part.text != "*" || after != "") {
		return identifier{}, "", fmt.Errorf("%w: table %q has a star that is not schema.*",
			ErrBadName, name)
	}
	return part, after, nil
}

func foldASCII(r rune) rune {
	if 'A' <= r && r <= 'Z' {
		return r + ('a' - 'A')
	}
	return r
}

// cutIdentifier cuts between characters, as PostgreSQL does.
func cutIdentifier(text string) string {
	if len(text) <= maxIdentifierBytes {
		return text
	}
	end := maxIdentifierBytes
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// closingQuote returns the index of the quote that ends the identifier at s[0], or
// -1. It skips doubled quotes.
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
