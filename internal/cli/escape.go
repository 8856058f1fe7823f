package cli

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/holdfast-dev/holdfast/internal/runes"
)

// escapeJSON writes the characters of JSON that could control a terminal as \u and four digits.
// JSON has them only in strings, except line breaks. Bytes that are not UTF-8 become U+FFFD.
func escapeJSON(text []byte) []byte {
	var b strings.Builder
	for _, r := range string(text) {
		if r != '\n' && runes.IsControl(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return []byte(b.String())
}

// toYAML returns JSON as YAML. Strings with characters that could control a terminal are in double
// quotes, with escapes.
func toYAML(text []byte) ([]byte, error) {
	var value any
	if err := yaml.UnmarshalWithOptions(text, &value, yaml.UseOrderedMap()); err != nil {
		return nil, err
	}
	root, err := yaml.ValueToNode(value)
	if err != nil {
		return nil, err
	}
	ast.Walk(quoter{}, root)
	return []byte(root.String() + "\n"), nil
}

// quoter sets double quotes in a tree of YAML.
type quoter struct{}

// Visit implements ast.Visitor.
func (q quoter) Visit(node ast.Node) ast.Visitor {
	text, isText := node.(*ast.StringNode)
	if isText && strings.ContainsFunc(text.Value, controls) {
		text.Token.Type = token.DoubleQuoteType
	}
	return q
}

// controls reports whether a character of a text with several lines could control a terminal.
func controls(r rune) bool { return r != '\n' && r != '\t' && runes.IsControl(r) }
