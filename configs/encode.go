package configs

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
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

func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	if err := encodeStruct(&out, reflect.ValueOf(v)); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func encodeText(v any) string {
	text, err := encode(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func encodeStruct(out *bytes.Buffer, v reflect.Value) error {
	out.WriteByte('{')
	first := true
	for _, f := range fieldsOf(v.Type()) {
		value := v.Field(f.index)
		if f.file || absent(value, f.rules) {
			continue
		}
		if !first {
			out.WriteByte(',')
		}
		first = false
		writeText(out, f.key)
		out.WriteByte(':')
		if err := encodeValue(out, value); err != nil {
			return err
		}
	}
	out.WriteByte('}')
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
	return v.Kind() == reflect.Pointer && v.IsNil()
}

func encodeValue(out *bytes.Buffer, v reflect.Value) error {
	switch value := v.Interface().(type) {
	case time.Duration:
		writeText(out, durationText(value))
		return nil
	case schedule.Spec:
		return encodeSpec(out, value)
	case Secret, Params, time.Time, netip.Prefix:
		return encodeOther(out, value)
	}
	switch v.Kind() {
	case reflect.String:
		writeText(out, strings.ReplaceAll(v.String(), "${", "$${")) // the value has been expanded
		return nil
	case reflect.Struct:
		return encodeStruct(out, v)
	case reflect.Pointer:
		return encodeStruct(out, v.Elem())
	case reflect.Slice:
		out.WriteByte('[')
		for i := range v.Len() {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := encodeValue(out, v.Index(i)); err != nil {
				return err
			}
		}
		out.WriteByte(']')
		return nil
	}
	return encodeOther(out, v.Interface())
}

func encodeSpec(out *bytes.Buffer, s schedule.Spec) error {
	switch {
	case s.Quartz != "":
		return encodeOther(out, map[string]string{"quartz": s.Quartz})
	case s.Every != 0:
		return encodeOther(out, map[string]string{"every": durationText(s.Every)})
	case s.Recurrence != schedule.Recurrence{}:
		return encodeOther(out, s.Recurrence.String())
	case !s.At.IsZero():
		return encodeOther(out, map[string]time.Time{"at": s.At})
	case s.After != nil:
		return encodeOther(out, map[string][]string{"after": s.After})
	}
	return encodeOther(out, s.Cron)
}

func encodeOther(out *bytes.Buffer, v any) error {
	text, err := json.Marshal(v)
	out.Write(text)
	return err
}
