package configs

import (
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// maxAliased bounds the expansion of nested aliases.
const maxAliased = 100_000

// treeBuilder converts the parser's nodes.
type treeBuilder struct {
	*document
	env     environment
	lines   []string
	anchors map[string]ast.Node
	open    map[string]bool // anchors being built; an alias to one is a cycle
	within  int             // depth of aliases around the current node
	aliased int             // nodes built within aliases

	last       position // of a variable's mistake, and its offset in the line
	lastOffset int
}

// buildTree returns the tree of n, and records all paths in d.places.
func (d *document) buildTree(n ast.Node, text string, env environment) *node {
	root := newTreeBuilder(d, text, env).build(n, "", position{1, 1}, 0)
	d.places[""] = place{key: root.pos, value: root}
	return root
}

func newTreeBuilder(d *document, text string, env environment) *treeBuilder {
	return &treeBuilder{
		document: d, env: env, lines: strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n"),
		anchors: map[string]ast.Node{}, open: map[string]bool{},
	}
}

// build converts n, at path under a key at keyPos.
func (b *treeBuilder) build(n ast.Node, path string, keyPos position, depth int) *node {
	if b.within > 0 {
		b.aliased++
	}
	if n == nil {
		return &node{kind: kindNull, pos: keyPos}
	}
	pos := positionOf(n)
	if depth > maxDepth || b.aliased > maxAliased {
		return b.refuse(pos, path, "found too much within one another or repeated by aliases, "+
			"expected at most %d levels and %d values", maxDepth, maxAliased)
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		return b.mapping(n.Values, pos, path, depth)
	case *ast.MappingValueNode:
		return b.mapping([]*ast.MappingValueNode{n}, pos, path, depth)
	case *ast.SequenceNode:
		return b.list(n, pos, path, depth)
	case *ast.AnchorNode:
		return b.anchor(n, path, keyPos, depth)
	case *ast.AliasNode:
		return b.alias(n, path, keyPos, depth)
	case *ast.TagNode:
		return b.refuse(pos, path, "found the tag %s, expected a value without a tag",
			n.GetToken().Value)
	case *ast.NullNode:
		return &node{kind: kindNull, pos: keyPos}
	case *ast.LiteralNode:
		if n.Value == nil {
			return b.refuse(pos, path, "found an empty block, expected text")
		}
		return b.text(n.Value.Value, true, pos, path)
	case *ast.StringNode:
		quoted := n.Token.Type == token.SingleQuoteType || n.Token.Type == token.DoubleQuoteType
		return b.text(n.Value, quoted, pos, path)
	case ast.ScalarNode:
		return b.text(n.GetToken().Value, false, pos, path)
	}
	return b.refuse(pos, path,
		"found YAML that a configuration has no use for (%s), expected a value", n.Type())
}

func (b *treeBuilder) refuse(pos position, path, format string, args ...any) *node {
	b.report(pos, path, format, args...)
	return &node{kind: kindInvalid, pos: pos}
}

// text builds a scalar. Unquoted text gets its YAML kind after expansion.
func (b *treeBuilder) text(written string, quoted bool, pos position, path string) *node {
	value, used, faults := expand(written, b.env)
	from := pos
	for _, f := range faults {
		at := from
		if !b.full() {
			at = b.find(f.mark, from)
		}
		b.report(at, path, "%s", f.message)
		from = position{at.line, at.column + 1}
	}
	n := &node{kind: kindText, pos: pos, text: value, written: written, expanded: used.any,
		secrets: used.values}
	switch {
	case len(faults) > 0:
		n.kind = kindInvalid
	case used.any && !quoted && value == "":
		// An empty variable is empty text, because the key has a value.
	case !quoted:
		n.kind = plainKind(value)
	}
	return n
}

// find returns the next position of mark in the file at or after from. It returns from if the text
// is written with escapes. Calls with growing positions take linear time in all.
func (b *treeBuilder) find(mark string, from position) position {
	const reach = 1000 // lines of one scalar
	for at := from; at.line <= min(len(b.lines), from.line+reach); at = (position{at.line + 1, 1}) {
		line := b.lines[at.line-1]
		offset := b.offset(at)
		for {
			i := strings.Index(line[offset:], mark)
			if i < 0 {
				break
			}
			before := offset + i
			at.column += utf8.RuneCountInString(line[offset:before])
			if b.last, b.lastOffset = at, before; before == 0 || line[before-1] != '$' {
				return at
			}
			offset, at.column = before+1, at.column+1 // mark begins with $
		}
	}
	return from
}

// offset returns the offset in bytes of a position in its line. It counts from the position that
// was found last.
func (b *treeBuilder) offset(at position) int {
	line, offset, column := b.lines[at.line-1], 0, 1
	if b.last.line == at.line && b.last.column <= at.column {
		offset, column = b.lastOffset, b.last.column
	}
	for ; column < at.column && offset < len(line); column++ {
		_, size := utf8.DecodeRuneInString(line[offset:])
		offset += size
	}
	return offset
}

func (b *treeBuilder) list(n *ast.SequenceNode, pos position, path string, depth int) *node {
	out := &node{kind: kindList, pos: pos, items: make([]*node, 0, len(n.Values))}
	for i, item := range n.Values {
		at := itemPath(path, i)
		value := b.build(item, at, pos, depth+1)
		b.places[at] = place{key: value.pos, value: value}
		out.items = append(out.items, value)
	}
	return out
}

func (b *treeBuilder) mapping(values []*ast.MappingValueNode, pos position, path string,
	depth int) *node {
	out := &node{kind: kindMapping, pos: pos}
	index := map[string]int{}
	for _, v := range values {
		if v.Key.IsMergeKey() {
			b.merge(out, index, v, path, depth)
		}
	}
	own := map[string]position{}
	for _, v := range values {
		if v.Key.IsMergeKey() {
			continue
		}
		name, at, ok := b.key(v.Key, path)
		if !ok {
			continue
		}
		full := keyPath(path, name)
		if first, twice := own[name]; twice {
			b.report(at, full,
				"found the key a second time, expected it once; the first is in line %d",
				first.line)
			continue
		}
		own[name] = at
		value := b.build(v.Value, full, at, depth+1)
		b.places[full] = place{key: at, value: value}
		out.set(index, name, value)
	}
	return out
}

func (n *node) set(index map[string]int, name string, value *node) {
	if i, ok := index[name]; ok {
		n.entries[i].value = value
		return
	}
	index[name] = len(n.entries)
	n.entries = append(n.entries, entry{name, value})
}

// key returns a key's name. Keys must be scalars.
func (b *treeBuilder) key(n ast.Node, path string) (name string, pos position, ok bool) {
	switch k := n.(type) {
	case *ast.MappingKeyNode:
		if k.Value != nil {
			return b.key(k.Value, path)
		}
	case *ast.AnchorNode:
		if k.Value != nil {
			return b.key(k.Value, path)
		}
	case *ast.AliasNode, *ast.TagNode:
	case *ast.StringNode:
		return k.Value, positionOf(k), true
	case ast.ScalarNode:
		return k.GetToken().Value, positionOf(k), true
	}
	b.report(positionOf(n), path, "found a key that is not plain text, expected a name")
	return "", position{}, false
}
