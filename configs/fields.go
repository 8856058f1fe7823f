package configs

import (
	"reflect"
	"strings"
	"unicode"
)

// field is a key of a mapping in the schema, from a field of a struct. Its rules are the struct
// tags min, max (durations, numbers), oneof and numbers (text).
type field struct {
	key   string
	file  bool // the key has the suffix _file, and its value is a file with the Secret
	index int
	rules reflect.StructTag
}

var secretType = reflect.TypeFor[Secret]()

// fields are the fields of a struct in order, and their keys.
type fields struct {
	list []field
	keys []string
}

// schemaFields has the fields of each struct of a configuration. It never changes. Reading the
// fields of a type takes longer than decoding a value of it.
var schemaFields = schemaOf(reflect.TypeFor[Config](), reflect.TypeFor[scheduleKeys]())

// schemaOf returns the fields of the structs and of all structs within them.
func schemaOf(structs ...reflect.Type) map[reflect.Type]*fields {
	known := make(map[reflect.Type]*fields)
	for len(structs) > 0 {
		t := structs[0]
		structs = structs[1:]
		if known[t] != nil {
			continue
		}
		known[t] = readFields(t)
		for _, f := range known[t].list {
			inner := t.Field(f.index).Type
			for inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map ||
				inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				structs = append(structs, inner)
			}
		}
	}
	return known
}

// fieldsOf returns the fields of a struct that are keys. A key is the yaml tag, or the field's name
// in lower case with underscores. The tag "-" excludes a field.
func fieldsOf(t reflect.Type) *fields {
	if known, ok := schemaFields[t]; ok {
		return known
	}
	return readFields(t)
}

func readFields(t reflect.Type) *fields {
	read := &fields{}
	add := func(f field) {
		read.list, read.keys = append(read.list, f), append(read.keys, f.key)
	}
	for i := range t.NumField() {
		f := t.Field(i)
		key := f.Tag.Get("yaml")
		if key == "-" || !f.IsExported() {
			continue
		}
		if key == "" {
			key = underscored(f.Name)
		}
		add(field{key: key, index: i, rules: f.Tag})
		if f.Type == secretType {
			add(field{key: key + "_file", file: true, index: i, rules: f.Tag})
		}
	}
	return read
}

func underscored(name string) string {
	var out strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToLower(r))
	}
	return out.String()
}
