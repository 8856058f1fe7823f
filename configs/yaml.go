package configs

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	maxFile = 8 << 20 // bytes
	// of nested lists and mappings; beyond it the parser takes quadratic time
	maxDepth = 64
	// one after another; for each line, the scanner takes a time that grows with the text before it
	maxBlankLines = 50
)

// parseYAML returns the root of the document in data, or nil if it is empty or has a mistake.
func (d *document) parseYAML(data []byte) ast.Node {
	if len(data) > maxFile {
		d.report(position{1, 1}, "", "found %d bytes, expected a configuration of at most %d",
			len(data), maxFile)
		return nil
	}
	if at := invalidUTF8(data); at != (position{}) {
		d.report(at, "", "found a byte that is not UTF-8, expected a text file in UTF-8")
		return nil
	}
	if line := tooBlank(data); line > 0 {
		d.report(position{line, 1}, "", "found more than %d blank lines in a row, expected fewer",
			maxBlankLines)
		return nil
	}
	text := strings.TrimPrefix(string(data), "\ufeff")
	file, err := guardedParse(text)
	if err != nil {
		d.reportSyntax(text, err)
		return nil
	}
	return d.onlyDocument(file)
}

// invalidUTF8 returns the first position that is not UTF-8, or zero.
func invalidUTF8(data []byte) position {
	at := position{1, 1}
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && size == 1:
			return at
		case r == '\n':
			at = position{at.line + 1, 1}
		default:
			at.column++
		}
		data = data[size:]
	}
	return position{}
}

// tooBlank returns the line that exceeds maxBlankLines, or 0.
func tooBlank(data []byte) int {
	line, blank := 1, 0
	for i, b := range data {
		switch b {
		case '\r':
			if i+1 < len(data) && data[i+1] == '\n' {
				continue
			}
			fallthrough
		case '\n':
			if blank++; blank > maxBlankLines+1 { // the first one ends a line with text
				return line
			}
			line++
		case ' ', '\t':
		default:
			blank = 0
		}
	}
	return 0
}

func (d *document) onlyDocument(file *ast.File) ast.Node {
	var root ast.Node
	for _, doc := range file.Docs {
		switch doc.Body.(type) {
		case nil, *ast.DirectiveNode, *ast.CommentGroupNode, *ast.CommentNode:
			continue
		}
		if root != nil {
			d.report(positionOf(doc.Body), "", "found a second document, expected one a file")
			return nil
		}
		root = doc.Body
	}
	return root
}

// guardedParse converts panics of the parser to errors, because its input is untrusted.
func guardedParse(text string) (file *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			file, err = nil, fmt.Errorf("the YAML parser cannot read this: %v", r)
		}
	}()
	tokens := lexer.Tokenize(text)
	if deep := tooDeep(tokens); deep != nil {
		return nil, &yaml.SyntaxError{Message: fmt.Sprintf("more than %d levels of nesting",
			maxDepth), Token: deep}
	}
	if long, what := tooLong(tokens); long != nil {
		return nil, &yaml.SyntaxError{Message: "more than " + what, Token: long}
	}
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// tooDeep returns the token that exceeds the maximum depth, of brackets or of list entries on one
// line.
func tooDeep(tokens token.Tokens) *token.Token {
	brackets, dashes, line := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, dashes = t.Position.Line, 0
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			brackets++
		case token.MappingEndType, token.SequenceEndType:
			brackets--
		case token.SequenceEntryType, token.MappingKeyType:
			dashes++
		}
		if brackets > maxDepth || dashes > maxDepth {
			return t
		}
	}
	return nil
}

func (d *document) reportSyntax(text string, err error) {
	pos, message := position{1, 1}, ""
	var syntax yaml.Error
	if !errors.As(err, &syntax) {
		message = err.Error()
	} else {
		message = syntax.GetMessage() // Error would also print the source, slowly
		if t := syntax.GetToken(); t != nil && t.Position != nil {
			pos = position{t.Position.Line, t.Position.Column}
		}
	}
	d.report(pos, "", "not valid YAML: %s%s", message, syntaxHint(text, pos.line))
}

// syntaxHint suggests the cause of common syntax errors.
func syntaxHint(text string, number int) string {
	var line string
	for l := range strings.SplitSeq(text, "\n") {
		if number--; number == 0 {
			line = l
			break
		}
	}
	switch _, value, _ := strings.Cut(line, ": "); {
	case strings.Contains(line, "${"):
		return "; inside { } and [ ] a value with ${…} needs quotes"
	case strings.HasPrefix(strings.TrimSpace(value), "*"),
		strings.HasPrefix(strings.TrimSpace(value), "@"):
		return "; a value that begins with * or @ needs quotes"
	case strings.HasPrefix(strings.TrimLeft(line, " "), "\t"):
		return "; indent with spaces"
	}
	return ""
}

func positionOf(n ast.Node) position {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		return positionOf(m.Values[0])
	}
	if v, ok := n.(*ast.MappingValueNode); ok {
		return positionOf(v.Key)
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return position{t.Position.Line, t.Position.Column}
	}
	return position{1, 1}
}
