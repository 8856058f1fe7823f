package configs

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/locking"
)

// TestDigestCoversEveryField changes each field of a job, and each field within it.
func TestDigestCoversEveryField(t *testing.T) {
	config, err := Parse("c.yaml", []byte(`
calendars: [{name: d, exclude: {dates: [12-24]}}]
jobs:
  - {name: a, schedule: "@daily", handler: own, tables: [b], resources: [{name: c, slots: 2}],
      calendars: [d], overridable: [e], params: {e: f}}
`))
	if err != nil {
		t.Fatal(err)
	}
	job := &config.Jobs[0]
	before, changes := job.digest(), 0
	eachChange(t, reflect.ValueOf(job).Elem(), "Job", func(path string) {
		if changes++; job.digest() == before {
			t.Errorf("a change of %s does not change the digest", path)
		}
	})
	if job.digest() != before {
		t.Error("the digest differs after all changes were taken back")
	}
	if least := 60; changes < least {
		t.Errorf("got %d changes, want at least %d", changes, least)
	}
}

// eachChange changes each part of a value in turn, calls changed with the path of the part, and
// takes the change back.
func eachChange(t *testing.T, v reflect.Value, path string, changed func(path string)) {
	t.Helper()
	with := func(value any) {
		before := reflect.ValueOf(v.Interface())
		v.Set(reflect.ValueOf(value).Convert(v.Type()))
		changed(path)
		v.Set(before)
	}
	switch value := v.Interface().(type) {
	case Params:
		for _, other := range []Params{{value: []byte(`{"e":1}`), written: value.written},
			{value: value.value, written: []byte(`{"e":1}`)},
			{value: value.value, written: value.written, secrets: []string{"f"}}} {
			with(other)
		}
		return
	case schedule.Schedule:
		with(value.WithJitter(time.Hour))
		return
	case time.Time:
		with(value.Add(time.Nanosecond))
		return
	case locking.Request:
		table, err := locking.Table("other", "public")
		if err != nil {
			t.Fatal(err)
		}
		with(locking.Request{Resource: table, Mode: value.Mode, Slots: value.Slots})
		with(locking.Request{Resource: value.Resource, Mode: locking.Shared, Slots: value.Slots})
		with(locking.Request{Resource: value.Resource, Mode: value.Mode, Slots: 7})
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				eachChange(t, v.Field(i), path+"."+f.Name, changed)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachChange(t, v.Index(i), fmt.Sprintf("%s[%d]", path, i), changed)
		}
		with(reflect.Append(v, reflect.Zero(v.Type().Elem())).Interface())
	case reflect.String:
		with(v.String() + "x")
	case reflect.Bool:
		with(!v.Bool())
	case reflect.Int, reflect.Int64:
		with(v.Int() + 1)
	case reflect.Float64:
		with(v.Float() + 1)
	default:
		t.Errorf("%s has the kind %s, which the test does not change", path, v.Kind())
	}
}
