package holdfast_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/jobs"
)

// internalTypes returns those of the types that are declared in an internal package, or point to
// such a type.
func internalTypes(types []reflect.Type) (found []reflect.Type) {
	for _, t := range types {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if strings.Contains(t.PkgPath(), "/internal/") {
			found = append(found, t)
		}
	}
	return found
}

// TestHandlersCannotReachTheStore checks that each method of a run that gives or takes a part of
// the engine needs a key. Other modules cannot write a key: its type is internal, and has a field
// that is not exported, so that no literal of theirs has an identical type.
func TestHandlersCannotReachTheStore(t *testing.T) {
	key := reflect.TypeFor[attempt.Key]()
	if key.NumField() == 0 || key.Field(0).IsExported() {
		t.Error("struct{}{} is assignable to attempt.Key")
	}
	var guarded []string
	for m := range reflect.TypeFor[*jobs.Run]().Methods() {
		var types []reflect.Type
		for in := range m.Type.Ins() {
			types = append(types, in)
		}
		hasKey := len(types) > 1 && types[1] == key
		for out := range m.Type.Outs() {
			types = append(types, out)
		}
		if found := internalTypes(types); len(found) > 0 && !hasKey {
			t.Errorf("%s has %v in its signature and needs no key", m.Name, found)
		}
		if hasKey {
			guarded = append(guarded, m.Name)
		}
	}
	if strings.Join(guarded, " ") != "Internal With" {
		t.Errorf("got methods with a key %q, want Internal and With", guarded)
	}
}

// zeroOf calls f with the zero value of its parameter. It works for types that the caller cannot
// name.
func zeroOf[In, Out any](f func(In) Out) Out {
	var zero In
	return f(zero)
}

// TestZeroKeyPanics checks that a key which was inferred as a type parameter gives nothing.
func TestZeroKeyPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("got no panic, want one")
		}
	}()
	zeroOf(jobs.NewRun("j", time.Now(), zerolog.Nop()).Internal)
}
