package configs

import (
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// jsonTree returns the tree of a JSON text that an encoder wrote, as if the file had it at path. It
// is a treeBuilder for the YAML parser's nodes, which takes ten times as long. After an error the
// tree is a mistake.
func (d *document) jsonTree(text, path string, env environment) (*node, error) {
	if !json.Valid([]byte(text)) {
		return &node{kind: kindInvalid}, errors.New("found a text that is not JSON")
	}
	b := jsonBuilder{treeBuilder: treeBuilder{document: d, env: env}, text: text}
	return b.build(path, 1), nil
}

// jsonBuilder builds the tree of a valid JSON text.
type jsonBuilder struct {
	treeBuilder
	text string
	at   int // the offset of the next character
}

// build builds the next value.
func (b *jsonBuilder) build(path string, depth int) *node {
	pos := position{1, 1}
	if depth > maxDepth {
		b.skip()
		return b.refuse(pos, path, "found too much within one another, expected at most %d levels",
			maxDepth)
	}
	switch b.next() {
	case '[':
		return b.list(path, depth)
	case '{':
		return b.mapping(path, depth)
	case '"':
		return b.treeBuilder.text(b.quoted(), true, pos, path)
	case 'n':
		b.bare()
		return &node{kind: kindNull, pos: pos}
	}
	return b.treeBuilder.text(b.bare(), false, pos, path)
}

func (b *jsonBuilder) list(path string, depth int) *node {
	out := &node{kind: kindList, pos: position{1, 1}}
	for b.at++; b.next() != ']'; b.separator() {
		at := itemPath(path, len(out.items))
		value := b.build(at, depth+1)
		b.places[at] = place{key: value.pos, value: value}
		out.items = append(out.items, value)
	}
	b.at++
	return out
}

func (b *jsonBuilder) mapping(path string, depth int) *node {
	out := &node{kind: kindMapping, pos: position{1, 1}}
	for b.at++; b.next() != '}'; b.separator() {
		name := b.quoted()
		b.next()
		b.at++ // the colon
		full := keyPath(path, name)
		if _, twice := b.places[full]; twice {
			b.report(out.pos, full, "found the key a second time, expected it once")
			b.skip()
			continue
		}
		value := b.build(full, depth+1)
		b.places[full] = place{key: value.pos, value: value}
		out.entries = append(out.entries, entry{name, value})
	}
	b.at++
	return out
}

// next returns the next character that is not white space.
func (b *jsonBuilder) next() byte {
	for {
		switch c := b.text[b.at]; c {
		case ' ', '\n', '\r', '\t':
			b.at++
		default:
			return c
		}
	}
}

// separator skips a comma.
func (b *jsonBuilder) separator() {
	if b.next() == ',' {
		b.at++
	}
}

// quoted reads a string.
func (b *jsonBuilder) quoted() string {
	start, plain := b.at, true
	for b.at++; b.text[b.at] != '"'; b.at++ {
		switch c := b.text[b.at]; {
		case c == '\\':
			b.at++
			plain = false
		case c >= utf8.RuneSelf: // it may be invalid
			plain = false
		}
	}
	b.at++
	if plain {
		return b.text[start+1 : b.at-1]
	}
	var read string
	_ = json.Unmarshal([]byte(b.text[start:b.at]), &read) // the text is valid
	return read
}

// bare reads a number, or a word such as true.
func (b *jsonBuilder) bare() string {
	start := b.at
	for ; b.at < len(b.text); b.at++ {
		switch b.text[b.at] {
		case ',', ']', '}', ' ', '\n', '\r', '\t':
			return b.text[start:b.at]
		}
	}
	return b.text[start:]
}

// skip skips the next value.
func (b *jsonBuilder) skip() {
	for open := 0; ; {
		switch b.next() {
		case '"':
			b.quoted()
		case '[', '{':
			open++
			b.at++
		case ']', '}':
			open--
			b.at++
		case ',', ':':
			b.at++
		default:
			b.bare()
		}
		if open == 0 {
			return
		}
	}
}
