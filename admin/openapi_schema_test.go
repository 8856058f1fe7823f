package admin

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

// object is a part of the OpenAPI document.
type object = map[string]any

// schemas builds JSON schemas of Go types, with their comments as descriptions.
type schemas struct {
	t        *testing.T
	named    object // components by the name of the type
	refusals object // components by kind and status
	types    map[string]reflect.Type
	// comments has the comments by package and type, then by field. The field "" is the type
	// itself.
	comments map[string]map[string]string
}

func newSchemas(t *testing.T) *schemas {
	return &schemas{t: t, named: object{}, refusals: object{}, types: map[string]reflect.Type{},
		comments: map[string]map[string]string{}}
}

// wordsOf returns the values of types that have only a few.
func wordsOf() map[reflect.Type][]string {
	words := map[reflect.Type][]string{}
	put(words, jobs.States())
	put(words, reasons.All())
	put(words, explain.Verdicts())
	put(words, storage.Topics())
	put(words, storage.BackfillStates())
	put(words, []storage.Source{storage.FromConfig, storage.FromStore})
	put(words, []storage.TargetKind{storage.TargetJob, storage.TargetGroup, storage.TargetAll})
	put(words, []locking.Mode{locking.Exclusive, locking.Shared, locking.Slotted})
	put(words, []locking.Kind{locking.KindTable, locking.KindPath, locking.KindSlot,
		locking.KindJob, locking.KindGroup, locking.KindMemo})
	put(words, []AdvisoryState{AdvisoryHeld, AdvisoryMissing, AdvisoryOther, AdvisoryOff,
		AdvisoryUnknown})
	put(words, []locks.Holding{locks.HeldItself, locks.HeldAbove, locks.HeldPartly, locks.HeldNot})
	put(words, locks.AgendaBands())
	put(words, cluster.Severities())
	put(words, cluster.Kinds())
	put(words, Refusals())
	put(words, []cluster.ReplicaState{ReplicaLive, cluster.ReplicaLate, cluster.ReplicaExpired,
		ReplicaStopped, cluster.ReplicaLost})
	put(words, []memcached.State{memcached.StateUnknown, memcached.StateSafe, memcached.StateUnsafe,
		memcached.StateUnreachable})
	put(words, []memcached.Rating{memcached.Good, memcached.Advice, memcached.Unsafe})
	put(words, []memcached.EventKind{memcached.EventUnreachable, memcached.EventBack,
		memcached.EventRestarted, memcached.EventFlushed, memcached.EventFlushRefused,
		memcached.EventEvicted, memcached.EventReassigned, memcached.EventFull,
		memcached.EventConnections, memcached.EventUnsafe, memcached.EventAdvice,
		memcached.EventCorrected})
	return words
}

func put[T ~string](words map[reflect.Type][]string, values []T) {
	for _, v := range values {
		words[reflect.TypeFor[T]()] = append(words[reflect.TypeFor[T]()], string(v))
	}
}

// of returns the schema of a type.
func (s *schemas) of(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[uuid.UUID]():
		return object{"type": "string", "format": "uuid"}
	case reflect.TypeFor[json.RawMessage](), reflect.TypeFor[any]():
		return object{} // any JSON value
	case reflect.TypeFor[[]byte]():
		return object{"type": "string", "contentEncoding": "base64"}
	}
	if words, few := wordsOf()[t]; few {
		return object{"type": "string", "enum": words}
	}
	if t.Kind() == reflect.Pointer {
		return object{"anyOf": []any{s.of(t.Elem()), object{"type": "null"}}}
	}
	for _, marshaler := range []reflect.Type{reflect.TypeFor[json.Marshaler](),
		reflect.TypeFor[interface{ MarshalText() ([]byte, error) }]()} {
		if t.Implements(marshaler) {
			s.t.Fatalf("%s writes itself: say how", t)
		}
	}
	switch t.Kind() {
	case reflect.String:
		if t != reflect.TypeFor[string]() {
			s.t.Fatalf("%s has few values: list them", t)
		}
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return object{"type": "integer", "format": "int64"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice:
		elem := t.Elem()
		if elem.Kind() == reflect.Pointer {
			elem = elem.Elem() // no element is null
		}
		return object{"type": "array", "items": s.of(elem)}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		return s.component(t)
	}
	s.t.Fatalf("%s has no schema", t)
	return nil
}

func (s *schemas) component(t reflect.Type) object {
	name := t.Name()
	name = strings.ToUpper(name[:1]) + name[1:]
	if known, there := s.types[name]; there && known != t {
		name = strings.ToUpper(filepath.Base(t.PkgPath())[:1]) + filepath.Base(t.PkgPath())[1:] +
			name
	}
	if s.types[name] == nil {
		s.types[name] = t
		properties, required := object{}, []string{}
		s.fields(t, properties, &required)
		schema := object{"type": "object", "properties": properties, "required": required,
			"additionalProperties": false}
		if comment := s.commentsOf(t)[""]; comment != "" {
			schema["description"] = comment
		}
		s.named[name] = schema
	}
	return object{"$ref": "#/components/schemas/" + name}
}

func (s *schemas) fields(t reflect.Type, properties object, required *[]string) {
	for f := range t.Fields() {
		tag := f.Tag.Get("json")
		if f.Anonymous && tag == "" {
			s.fields(f.Type, properties, required)
			continue
		}
		if !f.IsExported() || tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "" {
			s.t.Errorf("%s.%s has no name in JSON", t, f.Name)
		}
		kind := f.Type
		if options == "" {
			*required = append(*required, name)
		} else if kind.Kind() == reflect.Pointer {
			kind = kind.Elem() // it is omitted and never null
		}
		schema := s.of(kind)
		if comment := s.commentsOf(t)[f.Name]; comment != "" {
			schema["description"] = comment
		}
		properties[name] = schema
	}
}

// commentsOf reads the comments of a type and its fields from the source.
func (s *schemas) commentsOf(t reflect.Type) map[string]string {
	key := t.PkgPath() + "." + t.Name()
	if s.comments[key] == nil {
		s.read(t.PkgPath())
	}
	return s.comments[key]
}

func (s *schemas) read(path string) {
	paths, err := filepath.Glob(
		filepath.Join("..", strings.TrimPrefix(path, "github.com/holdfast-dev/holdfast"), "*.go"))
	if err != nil || len(paths) == 0 {
		s.t.Fatalf("source of %s: %v", path, err)
	}
	for _, file := range paths {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			s.t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.TYPE {
				for _, spec := range d.Specs {
					s.comments[path+"."+spec.(*ast.TypeSpec).Name.Name] =
						comments(d.Doc, spec.(*ast.TypeSpec))
				}
			}
			return true
		})
	}
}

func comments(doc *ast.CommentGroup, spec *ast.TypeSpec) map[string]string {
	found := map[string]string{"": plain(doc)}
	if s, ok := spec.Type.(*ast.StructType); ok {
		for _, field := range s.Fields.List {
			for _, name := range field.Names {
				found[name.Name] = strings.TrimSpace(plain(field.Doc) + " " + plain(field.Comment))
			}
		}
	}
	return found
}

func plain(c *ast.CommentGroup) string {
	return strings.Join(strings.Fields(c.Text()), " ")
}

// propertyNames returns the names of a schema's properties, sorted.
func propertyNames(properties object) []string { return slices.Sorted(maps.Keys(properties)) }
