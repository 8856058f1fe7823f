package configs

import (
	"reflect"
	"strings"
	"sync"
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

// knownFields has the fields of structs by reflect.Type. To read them from a type takes longer than
// to decode a value of it.
var knownFields sync.Map

// fieldsOf returns the fields of a struct that are keys. A key is the yaml tag, or the field's name
// in lower case with underscores. The tag "-" excludes a field.
func fieldsOf(t reflect.Type) *fields {
	if known, ok := knownFields.Load(t); ok {
		return known.(*fields)
	}
	read := &fields{list: readFields(t)}
	for _, f := range read.list {
		read.keys = append(read.keys, f.key)
	}
	knownFields.Store(t, read)
	return read
}

func readFields(t reflect.Type) []field {
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
