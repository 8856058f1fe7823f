package configs

import "github.com/goccy/go-yaml/ast"

func (b *treeBuilder) anchor(n *ast.AnchorNode, path string, keyPos position, depth int) *node {
	name := n.Name.GetToken().Value
	b.anchors[name] = n.Value
	if b.open[name] {
		return b.refuse(positionOf(n), path,
			"found the anchor &%s within itself, expected another name", name)
	}
	b.open[name] = true
	defer delete(b.open, name)
	return b.build(n.Value, path, keyPos, depth)
}

func (b *treeBuilder) alias(n *ast.AliasNode, path string, keyPos position, depth int) *node {
	name, pos := n.Value.GetToken().Value, positionOf(n)
	target, ok := b.anchors[name]
	switch {
	case !ok:
		return b.refuse(pos, path, "found the alias *%s, expected an anchor &%s before it; text "+
			"that begins with * needs quotes", name, name)
	case b.open[name]:
		return b.refuse(pos, path, "found the alias *%s within its own anchor, expected an end",
			name)
	}
	b.open[name] = true
	b.within++
	defer func() { delete(b.open, name); b.within-- }()
	return b.build(target, path, keyPos, depth)
}

// merge adds the entries of a merge key's mappings. If several have a key, the first one wins.
func (b *treeBuilder) merge(out *node, index map[string]int, v *ast.MappingValueNode, path string,
	depth int) {
	sources := []ast.Node{v.Value}
	if list, ok := v.Value.(*ast.SequenceNode); ok {
		sources = nil
		for i := len(list.Values) - 1; i >= 0; i-- {
			sources = append(sources, list.Values[i])
		}
	}
	for _, source := range sources {
		merged := b.build(source, path, positionOf(v.Key), depth)
		switch merged.kind {
		case kindMapping:
			for _, e := range merged.entries {
				out.set(index, e.name, e.value)
			}
		case kindInvalid:
		default:
			b.report(merged.pos, path, "found %s to merge, expected an alias of a mapping",
				merged.kind)
		}
	}
}
