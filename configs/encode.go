package configs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/durations"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/locking"
)

// MarshalJSON encodes the configuration under the file's keys, including defaults, with durations
// as text and secrets redacted. It is for people and logs. Parse accepts the result, except for
// redacted values.
func (c Config) MarshalJSON() ([]byte, error) { return encode(c) }

// String returns MarshalJSON's text.
func (c Config) String() string { return encodeText(c) }

// MarshalJSON encodes the job under the file's keys, with params as written.
func (j Job) MarshalJSON() ([]byte, error) { return encode(j) }

// String returns MarshalJSON's text.
func (j Job) String() string { return encodeText(j) }

// encode returns v under the file's keys, with secrets redacted.
func encode(v any) ([]byte, error) {
	e := encoder{}
	err := e.encodeStruct(reflect.ValueOf(v))
	return e.out.Bytes(), err
}

func encodeText(v any) string {
	text, err := encode(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// encoder writes values in JSON, under the file's keys.
type encoder struct {
	out bytes.Buffer
	// forParse writes the texts of secrets. In elements of lists and values of pointers, it leaves
	// out zero values that are defaults: a file need not have these keys, and some checks refuse a
	// key with a zero value.
	forParse bool
	defaults reflect.Value // of the struct that is encoded next, if it is such an element
	// sparse leaves out zero values, which then have their defaults. In a configuration it applies
	// only to elements of lists and to values of pointers.
	sparse, within bool
}

func (e *encoder) encodeStruct(v reflect.Value) error {
	e.out.WriteByte('{')
	first := true
	sparse, defaults := e.sparse && e.within, e.defaults
	e.defaults = reflect.Value{}
	for _, f := range fieldsOf(v.Type()).list {
		value := v.Field(f.index)
		isDefault := sparse || defaults.IsValid() && defaults.Field(f.index).IsZero()
		if f.file || isDefault && value.IsZero() || absent(value, f.rules) {
			continue
		}
		if !first {
			e.out.WriteByte(',')
		}
		first = false
		writeText(&e.out, f.key)
		e.out.WriteByte(':')
		if f.key == "attempts" && value.Int() == UnlimitedAttempts {
			value = reflect.ValueOf(0) // as the file writes it
		}
		if err := e.encodeValue(value); err != nil {
			return fmt.Errorf("%s: %w", f.key, err)
		}
	}
	e.out.WriteByte('}')
	return nil
}

// absent reports whether a value is left out, because the file cannot express it.
func absent(v reflect.Value, rules reflect.StructTag) bool {
	switch v.Type() {
	case specType, timeType, forEachType:
		return v.IsZero()
	}
	if v.Kind() == reflect.Int && v.IsZero() {
		return !inNumbers(0, rules) // otherwise zero means none
	}
	if v.Kind() == reflect.Slice && rules.Get("empty") == "no" {
		return v.Len() == 0
	}
	return v.Kind() == reflect.Pointer && v.IsNil()
}

func (e *encoder) encodeValue(v reflect.Value) error {
	if v.Kind() == reflect.String {
		e.writeExpanded(v.String())
		return nil
	}
	switch value := v.Interface().(type) {
	case time.Duration:
		if value == locking.NeverReserve {
			value = 0 // as the file writes it
		}
		writeText(&e.out, durations.Short(value))
		return nil
	case schedule.Spec:
		return e.encodeSpec(value)
	case Secret:
		text := value.String()
		if e.forParse {
			text = value.Reveal()
		}
		e.writeExpanded(text)
		return nil
	case Params:
		e.out.Write(orEmpty(value.written))
		return nil
	case time.Time, netip.Prefix:
		return e.encodeOther(value)
	}
	switch v.Kind() {
	case reflect.Struct:
		return e.encodeStruct(v)
	case reflect.Pointer:
		return e.encodeElement(v.Elem())
	case reflect.Slice:
		e.out.WriteByte('[')
		for i := range v.Len() {
			if i > 0 {
				e.out.WriteByte(',')
			}
			if err := e.encodeElement(v.Index(i)); err != nil {
				return err
			}
		}
		e.out.WriteByte(']')
		return nil
	}
	if v.Kind() == reflect.Map {
		return e.encodeMap(v)
	}
	return e.encodeOther(v.Interface())
}

// encodeMap encodes a mapping whose keys are names, in the order of the names.
func (e *encoder) encodeMap(v reflect.Value) error {
	e.out.WriteByte('{')
	names := v.MapKeys()
	slices.SortFunc(names, func(a, b reflect.Value) int {
		return strings.Compare(a.String(), b.String())
	})
	for i, name := range names {
		if i > 0 {
			e.out.WriteByte(',')
		}
		writeText(&e.out, name.String())
		e.out.WriteByte(':')
		if err := e.encodeElement(v.MapIndex(name)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	e.out.WriteByte('}')
	return nil
}

// encodeElement encodes an element of a list, or the value of a pointer.
func (e *encoder) encodeElement(v reflect.Value) error {
	outside := e.within
	e.within = true
	if e.forParse && v.Kind() == reflect.Struct {
		e.defaults = reflect.New(v.Type()).Elem()
		startAt(e.defaults, nil)
	}
	defer func() { e.within, e.defaults = outside, reflect.Value{} }()
	return e.encodeValue(v)
}

// writeExpanded writes text whose variables have been expanded.
func (e *encoder) writeExpanded(text string) {
	writeText(&e.out, strings.ReplaceAll(text, "${", "$${"))
}

// encodeSpec writes every kind that s has, so that two of them are found as a mistake.
func (e *encoder) encodeSpec(s schedule.Spec) error {
	kinds := map[string]any{}
	if s.Cron != "" {
		kinds["cron"] = s.Cron
	}
	if s.Quartz != "" {
		kinds["quartz"] = s.Quartz
	}
	if s.Every != 0 {
		kinds["every"] = durations.Short(s.Every)
	}
	if !s.At.IsZero() {
		kinds["at"] = s.At
	}
	if s.After != nil {
		kinds["after"] = s.After
	}
	recurrence := s.Recurrence != schedule.Recurrence{}
	switch {
	case len(kinds) == 0 && recurrence:
		return e.encodeOther(s.Recurrence.String())
	case len(kinds) == 1 && s.Cron != "" && !recurrence:
		writeText(&e.out, s.Cron)
		return nil
	case recurrence:
		return fmt.Errorf("found %q and another kind of schedule, expected one of them",
			s.Recurrence)
	}
	return e.encodeOther(kinds)
}

func (e *encoder) encodeOther(v any) error {
	text, err := json.Marshal(v)
	e.out.Write(text)
	return err
}
