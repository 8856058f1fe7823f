package configs

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// jsonTree returns the tree of a JSON text that an encoder wrote, as if the file had it at path. It
// is a treeBuilder for the YAML parser's nodes, which takes ten times as long.
func (d *document) jsonTree(text string, path string, env environment) (*node, error) {
	in := json.NewDecoder(strings.NewReader(text))
	in.UseNumber()
	return newTreeBuilder(d, text, env).fromJSON(in, path, 1)
}

// fromJSON builds the next value of in.
func (b *treeBuilder) fromJSON(in *json.Decoder, path string, depth int) (*node, error) {
	pos := position{1, 1}
	if depth > maxDepth {
		var skipped json.RawMessage
		return b.refuse(pos, path, "found too much within one another, expected at most %d levels",
			maxDepth), in.Decode(&skipped)
	}
	token, err := in.Token()
	if err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '[' {
			return b.listFromJSON(in, path, depth)
		}
		return b.mappingFromJSON(in, path, depth)
	case string:
		return b.text(t, true, pos, path), nil
	case json.Number:
		return b.text(t.String(), false, pos, path), nil
	case bool:
		return b.text(strconv.FormatBool(t), false, pos, path), nil
	}
	return &node{kind: kindNull, pos: pos}, nil
}

func (b *treeBuilder) listFromJSON(in *json.Decoder, path string, depth int) (*node, error) {
	out := &node{kind: kindList, pos: position{1, 1}}
	for in.More() {
		at := itemPath(path, len(out.items))
		value, err := b.fromJSON(in, at, depth+1)
		if err != nil {
			return nil, err
		}
		b.places[at] = place{key: value.pos, value: value}
		out.items = append(out.items, value)
	}
	_, err := in.Token() // the closing bracket
	return out, err
}

func (b *treeBuilder) mappingFromJSON(in *json.Decoder, path string, depth int) (*node, error) {
	out, index := &node{kind: kindMapping, pos: position{1, 1}}, map[string]int{}
	for in.More() {
		token, err := in.Token()
		if err != nil {
			return nil, fmt.Errorf("read JSON: %w", err)
		}
		name := fmt.Sprint(token)
		full := keyPath(path, name)
		value, err := b.fromJSON(in, full, depth+1)
		if err != nil {
			return nil, err
		}
		if _, twice := index[name]; twice {
			b.report(value.pos, full, "found the key a second time, expected it once")
			continue
		}
		b.places[full] = place{key: value.pos, value: value}
		out.set(index, name, value)
	}
	_, err := in.Token() // the closing brace
	return out, err
}
