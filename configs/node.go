package configs

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// kind is the kind of a node of the tree.
type kind int

const (
	kindInvalid kind = iota // reported already and skipped
	kindNull
	kindBool
	kindInt
	kindFloat
	kindText
	kindList
	kindMapping
)

// String describes a value of the kind in a message.
func (k kind) String() string {
	switch k {
	case kindNull:
		return "nothing"
	case kindBool:
		return "true or false"
	case kindInt, kindFloat:
		return "a number"
	case kindText:
		return "text"
	case kindList:
		return "a list"
	case kindMapping:
		return "a mapping"
	}
	return "a mistake"
}

// node is a value of the file with its position. Aliases are resolved and variables expanded.
type node struct {
	kind     kind
	pos      position
	text     string   // of a scalar, expanded
	written  string   // of a scalar, as written
	expanded bool     // the scalar has variables
	secrets  []string // values of the environment in it
	entries  []entry
	items    []*node
}

// entry is a key of a mapping and its value.
type entry struct {
	name  string
	value *node
}

func (n *node) scalar() bool { return n.kind >= kindBool && n.kind <= kindText }

// entry returns the value of a key, or nil.
func (n *node) entry(name string) *node {
	for _, e := range n.entries {
		if e.name == name {
			return e.value
		}
	}
	return nil
}

// found describes the node in a message: a short scalar by its value, others by their kind. It
// never shows the value of a variable.
func (n *node) found() string {
	switch {
	case !n.scalar():
		return n.kind.String()
	case n.expanded:
		return shorten(n.written) + " (its value is not shown)"
	case n.kind == kindText:
		return shorten(n.text)
	}
	return n.text
}

func shorten(s string) string {
	const most = 60
	if runes := []rune(s); len(runes) > most {
		s = string(runes[:most]) + "…"
	}
	return strconv.Quote(s)
}

var (
	decimal  = regexp.MustCompile(`^[-+]?[0-9]+$`)
	radix    = regexp.MustCompile(`^0(x[0-9a-fA-F]+|o[0-7]+)$`)
	float    = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
	infinite = regexp.MustCompile(`^([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
)

// plainKind returns the kind of an unquoted scalar in the core schema of YAML 1.2.
func plainKind(text string) kind {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return kindNull
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return kindBool
	}
	switch {
	case text[0] > '9': // no number begins with it
		return kindText
	case decimal.MatchString(text), radix.MatchString(text):
		return kindInt
	case float.MatchString(text), infinite.MatchString(text):
		return kindFloat
	}
	return kindText
}

// integer parses a scalar of kindInt.
func integer(text string) (int64, error) {
	if radix.MatchString(text) {
		return strconv.ParseInt(text, 0, 64)
	}
	return strconv.ParseInt(text, 10, 64)
}

// jsonNumber converts a YAML number to JSON. Integers keep all digits.
func jsonNumber(n *node) (string, error) {
	if n.kind == kindInt && decimal.MatchString(n.text) {
		sign, digits := "", strings.TrimLeft(n.text, "+")
		if digits[0] == '-' {
			sign, digits = "-", digits[1:]
		}
		if digits = strings.TrimLeft(digits, "0"); digits == "" {
			return "0", nil
		}
		return sign + digits, nil
	}
	if n.kind == kindInt {
		i, err := integer(n.text)
		if err != nil {
			return "", fmt.Errorf("expected a number of at most 64 bits")
		}
		return strconv.FormatInt(i, 10), nil
	}
	f, err := strconv.ParseFloat(n.text, 64)
	if err != nil {
		return "", fmt.Errorf("expected a finite number; in quotes it is text")
	}
	return strconv.FormatFloat(f, 'g', -1, 64), nil
}
