package jobs

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
)

// ParamProblem is one mistake in a job's params.
type ParamProblem struct {
	Key     string // the top-level key, or "" for the params as a whole
	Message string // what was found and what is expected
}

// ParamsError holds every mistake found in a job's params.
type ParamsError struct {
	Problems []ParamProblem
}

// Error lists the problems, separated by semicolons.
func (e *ParamsError) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.Message
		if p.Key != "" {
			texts[i] = p.Key + ": " + p.Message
		}
	}
	return "params: " + strings.Join(texts, "; ")
}

// decodeParams decodes raw strictly into the struct that target points to, whose keys are names
// (nil: any). It returns all mistakes at once.
func decodeParams(raw json.RawMessage, target any, names []string) error {
	if len(raw) == 0 || string(raw) == "null" {
		raw = json.RawMessage("{}")
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil {
		return &ParamsError{Problems: []ParamProblem{
			{Message: "expected a mapping of keys to values"}}}
	}
	known := true
	for key := range keys {
		known = known && (names == nil || slices.Contains(names, key))
	}
	if err := decodeStrictly(raw, target); !known || err != nil {
		problems := paramProblems(keys, target, names)
		if len(problems) == 0 { // each key is right, but not all together
			problems = []ParamProblem{{Message: plainJSONError(err)}}
		}
		return &ParamsError{Problems: problems}
	}
	if v, ok := validatorOf(target); ok {
		return asParamsError(v.Validate())
	}
	return nil
}

// validatorOf returns target, or else what it points to, as a Validator. Params may be a pointer.
func validatorOf(target any) (Validator, bool) {
	if v, ok := target.(Validator); ok {
		return v, true
	}
	v, ok := reflect.ValueOf(target).Elem().Interface().(Validator)
	return v, ok
}

// paramProblems decodes key by key, to find the mistakes in each of them.
func paramProblems(keys map[string]json.RawMessage, target any,
	names []string) (problems []ParamProblem) {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if names != nil && !slices.Contains(names, key) {
			problems = append(problems,
				ParamProblem{Key: key, Message: fmt.Sprintf("unknown key %q, expected one of %s",
					key, strings.Join(names, ", "))})
			continue
		}
		one, err := json.Marshal(map[string]json.RawMessage{key: keys[key]})
		if err == nil {
			err = decodeStrictly(one, target)
		}
		if err != nil {
			problems = append(problems, ParamProblem{Key: key, Message: plainJSONError(err)})
		}
	}
	return problems
}

// decodeStrictly decodes a JSON object. It refuses keys that target does not have.
func decodeStrictly(raw json.RawMessage, target any) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(target); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func asParamsError(err error) error {
	var known *ParamsError
	if err == nil || errors.As(err, &known) {
		return err
	}
	return &ParamsError{Problems: []ParamProblem{{Message: err.Error()}}}
}

// plainJSONError returns the message of an encoding/json error in words that fit YAML files too.
func plainJSONError(err error) string {
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		found, expected := jsonWords(wrongType.Value), typeWords(wrongType.Type)
		if number, ok := strings.CutPrefix(found, "the number "); ok {
			expected += boundsOf(wrongType.Type, number)
		}
		return "found " + found + ", expected " + expected
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	if name, ok := strings.CutPrefix(text, "unknown field "); ok {
		return "unknown key " + name // within a value
	}
	return text
}

// jsonWords describes a value of an UnmarshalTypeError, such as "array" or "number 1.5".
func jsonWords(value string) string {
	switch value {
	case "array":
		return "a list"
	case "object":
		return "a mapping"
	case "bool":
		return "true or false"
	}
	if strings.HasPrefix(value, "number ") { // it does not fit the type
		return "the " + value
	}
	return "a " + value
}

// typeWords describes the values of a type in words that do not depend on Go.
func typeWords(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[Duration]():
		return "a duration such as 90s or 1h30m"
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return "a string"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.String {
			return "a list of strings, such as [a, b]"
		}
		return "a list"
	case reflect.Map:
		if t.Elem().Kind() == reflect.String {
			return "a mapping of names to strings, such as {a: b}"
		}
		return "a mapping"
	case reflect.Struct:
		return "a mapping of keys to values"
	case reflect.String:
		return "a string"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	if reflect.Int <= t.Kind() && t.Kind() <= reflect.Uintptr {
		return "a whole number"
	}
	return "another value"
}

// boundsOf returns the bounds of a type for a number that it does not have, such as
// " from -128 to 127". It returns "" for a fraction, because a type for whole numbers has none.
func boundsOf(t reflect.Type, number string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch kind := t.Kind(); {
	case kind == reflect.Float32 || kind == reflect.Float64:
		return fmt.Sprintf(" of at most %d bits", t.Bits())
	case strings.ContainsAny(number, ".eE"):
		return ""
	case reflect.Int <= kind && kind <= reflect.Int64:
		most := int64(math.MaxInt64) >> (64 - t.Bits())
		return fmt.Sprintf(" from %d to %d", -most-1, most)
	case reflect.Uint <= kind && kind <= reflect.Uintptr:
		return fmt.Sprintf(" from 0 to %d", uint64(math.MaxUint64)>>(64-t.Bits()))
	}
	return ""
}

// paramNames returns the keys of a struct in their exact case, because encoding/json ignores case.
// It returns nil if the type is not a struct.
func paramNames(t reflect.Type) []string {
	if t.Kind() != reflect.Struct {
		return nil
	}
	names := make([]string, 0, t.NumField())
	for _, field := range visibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !field.IsExported() || field.Anonymous && name == "" || name == "-" {
			continue
		}
		names = append(names, cmp.Or(name, field.Name))
	}
	return names
}

// visibleFields is reflect.VisibleFields, and faster if the struct embeds no other. A program may
// have a handler for each of many jobs.
func visibleFields(t reflect.Type) []reflect.StructField {
	fields := make([]reflect.StructField, t.NumField())
	for i := range fields {
		if fields[i] = t.Field(i); fields[i].Anonymous {
			return reflect.VisibleFields(t)
		}
	}
	return fields
}

// Duration is a time.Duration for params: written as "90s", "1h30m".
type Duration time.Duration

// UnmarshalText parses a duration in Go's notation.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("found %q, expected a duration such as 90s or 1h30m", text)
	}
	*d = Duration(parsed)
	return nil
}

// MarshalText writes Go's notation of a duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }
