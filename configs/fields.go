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

// fieldsByType has the keys of structs by type. To read them from a type takes longer than to
// decode a value of it.
type fieldsByType map[reflect.Type][]field

// of returns what fieldsOf returns.
func (k fieldsByType) of(t reflect.Type) []field {
	fields, known := k[t]
	if !known {
		fields = fieldsOf(t)
		k[t] = fields
	}
	return fields
}

// fieldsOf returns the keys of a struct in order. A key is the yaml tag, or the field's name in
// lower case with underscores. The tag "-" excludes a field.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		key := f.Tag.Get("yaml")
		if key == "-" || !f.IsExported() {
			continue
		}
		if key == "" {
			key = underscored(f.Name)
		}
		fields = append(fields, field{key: key, index: i, rules: f.Tag})
		if f.Type == secretType {
			fields = append(fields, field{key: key + "_file", file: true, index: i, rules: f.Tag})
		}
	}
	return fields
}

func keysOf(fields []field) []string {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.key
	}
	return keys
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
