package configs

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// ForEach expands a job to one instance per item. Each instance has its own locks and history, and
// a name of job and item, such as rollup.acme.
type ForEach struct {
	// Param is the name of the placeholder for the item. If for_each is a list, the name is item.
	// If it is a mapping, the name is its only key, and each instance also gets its item as a param
	// of that name.
	Param string
	named bool
	items []forItem
}

// forItem is an item and its position in the file.
type forItem struct {
	value *node
	path  string
}

const (
	defaultItem  = "item" // the placeholder, unless the file sets one
	maxItems     = 1000
	maxJobName   = 200
	forEachWords = "a list of items, or a mapping of one param's name to such a list"
)

// itemPattern matches a single path segment that needs no escapes in URLs, shells and logs.
var itemPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

func (d *decoder) decodeForEach(n *node, v reflect.Value, path string) {
	each := ForEach{Param: defaultItem}
	if n.kind == kindMapping {
		if len(n.entries) != 1 {
			d.report(n.pos, path, "found %d keys, expected %s", len(n.entries), forEachWords)
			return
		}
		each.Param, each.named = n.entries[0].name, true
		if path = keyPath(path, each.Param); !plainName(each.Param) {
			d.failKey(path, "found the param's name %s, expected letters, digits, _ and -",
				shorten(each.Param))
			return
		}
		n = n.entries[0].value
	}
	switch {
	case n.kind == kindInvalid:
		return
	case n.kind != kindList:
		d.report(n.pos, path, "found %s, expected %s", n.kind, forEachWords)
		return
	case len(n.items) == 0:
		d.report(n.pos, path, "found no items, expected at least one")
		return
	case len(n.items) > maxItems:
		d.report(n.pos, path, "found %d items, expected at most %d", len(n.items), maxItems)
		return
	}
	first := map[string]*node{}
	for i, item := range n.items {
		if at := itemPath(path, i); d.checkItem(item, at, first) {
			each.items = append(each.items, forItem{item, at})
		}
	}
	v.Set(reflect.ValueOf(each))
}

// checkItem reports whether an item is valid and unique.
func (d *decoder) checkItem(item *node, path string, first map[string]*node) bool {
	const words = "one segment of letters, digits, _, - and ., that does not begin with - or ."
	before, twice := first[item.text]
	switch {
	case item.kind == kindInvalid:
		return false
	case !item.scalar() || !itemPattern.MatchString(item.text):
		d.report(item.pos, path, "found %s, expected %s", item.found(), words)
		return false
	case twice:
		d.report(item.pos, path, "found %s a second time, expected each item once; the first is "+
			"in line %d", item.found(), before.pos.line)
		return false
	}
	first[item.text] = item
	return true
}

// instance is a job during its check, possibly for one item.
type instance struct {
	Job
	params *node  // params that placeholders refer to
	item   string // path of the item; "" without for_each

	placeholder, value string // of the item
}

// noParams is the mapping of a job without params.
var noParams = &node{kind: kindMapping}

// instances returns the instances of a job, until the next call.
func (c *checker) instances(written *Job, path string) []instance {
	at := keyPath(path, "params")
	params := noParams
	if c.given(at) {
		params = c.near(at).value
	}
	each := written.ForEach
	c.single[0] = instance{Job: *written, params: params}
	if !c.given(keyPath(path, "for_each")) || len(each.items) == 0 {
		return c.single[:] // a job with a mistake is checked unexpanded
	}
	if own := params.entry(each.Param); own != nil {
		c.failKey(keyPath(at, each.Param), "found the param %s, which is also each item of "+
			"for_each, expected another name for one of them", each.Param)
		return c.single[:]
	}
	made := make([]instance, 0, len(each.items))
	for _, item := range each.items {
		one := instance{Job: *written, item: item.path}
		one.ForEach = ForEach{}
		if one.Name += "." + item.value.text; len(one.Name) > maxJobName {
			c.fail(item.path, "found %s, which makes a job's name of %d bytes, expected at most %d",
				c.foundAt(item.path), len(one.Name), maxJobName)
			continue
		}
		c.fit(&one, each, item.value, params, at)
		made = append(made, one)
	}
	return made
}

// fit sets the params of an instance.
func (c *checker) fit(one *instance, each ForEach, item, params *node, path string) {
	one.placeholder, one.value = "{"+each.Param+"}", item.text
	given := params.replaced(one.placeholder, item)
	one.params = &node{kind: kindMapping, pos: given.pos,
		entries: append(slices.Clone(given.entries), entry{each.Param, item})}
	if each.named {
		given = one.params
	}
	if params.kind != kindMapping {
		return // reported already
	}
	if encoded, ok := (&decoder{document: c.document}).decodeParams(given, path); ok {
		one.Params = encoded
	}
}

// settle replaces the placeholder in the job's names by the item, after the checks.
func (one *instance) settle() {
	if one.item == "" {
		return
	}
	fill := func(text string) string { return strings.ReplaceAll(text, one.placeholder, one.value) }
	one.Description = fill(one.Description)
	one.Tables, one.ReadTables, one.Resources = slices.Clone(one.Tables),
		slices.Clone(one.ReadTables), slices.Clone(one.Resources)
	for _, names := range [][]string{one.Tables, one.ReadTables} {
		for i := range names {
			names[i] = fill(names[i])
		}
	}
	for i := range one.Resources {
		one.Resources[i].Name = fill(one.Resources[i].Name)
	}
}

// replaced returns a copy of the node with the item in place of the placeholder, in texts at any
// depth but not in keys. The copy is hidden if the item comes from a variable.
func (n *node) replaced(placeholder string, item *node) *node {
	copied := *n
	if n.kind == kindText && strings.Contains(n.text, placeholder) {
		copied.text = strings.ReplaceAll(n.text, placeholder, item.text)
		copied.written = strings.ReplaceAll(n.written, placeholder, item.written)
		copied.expanded = n.expanded || item.expanded
		copied.secrets = slices.Concat(n.secrets, item.secrets)
	}
	copied.entries, copied.items = slices.Clone(n.entries), slices.Clone(n.items)
	for i, e := range copied.entries {
		copied.entries[i].value = e.value.replaced(placeholder, item)
	}
	for i, value := range copied.items {
		copied.items[i] = value.replaced(placeholder, item)
	}
	return &copied
}
