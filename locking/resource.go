package locking

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/internal/plural"
	"github.com/holdfast-dev/holdfast/internal/runes"
)

// ErrBadName is wrapped by every error about an invalid resource name. A valid name is UTF-8 of 1
// to 1,024 bytes. It has no control characters, and no empty, "." or ".." segments.
var ErrBadName = errors.New("bad resource name")

// Kind separates the names of different things: a table "orders" and a job "orders" are two
// resources.
type Kind string

const (
	KindTable Kind = "table" // a table or schema of a database: schema/table
	KindPath  Kind = "path"  // any "/"-separated name
	KindSlot  Kind = "slot"  // a name with a number of slots: a semaphore
	KindJob   Kind = "job"   // a job's own name, for its overlap policy
	KindGroup Kind = "group" // a group of jobs, which limits their concurrent runs
	KindMemo  Kind = "memo"  // a value that a Memo computes
)

// HasHierarchy reports whether a lock on a name of this kind covers the paths beneath it.
func (k Kind) HasHierarchy() bool { return k == KindTable || k == KindPath || k == KindSlot }

// MaxRequests is the maximum number of resources in one lock.
const MaxRequests = 1000

const (
	maxNameBytes = 1024
	maxSlots     = 1000
)

// Resource is a kind and a "/"-separated path. Resources are comparable. The zero Resource is
// invalid.
type Resource struct {
	key  string // the kind, a colon and the path
	kind int    // the length of the kind in it
}

// Path returns the resource of a "/"-separated name such as "shared/marketing". It drops leading
// and trailing slashes and preserves case.
func Path(name string) (Resource, error) { return newResource(KindPath, strings.Trim(name, "/")) }

// Slot returns the resource of a semaphore's name.
func Slot(name string) (Resource, error) { return newResource(KindSlot, strings.Trim(name, "/")) }

// Job returns the resource of a job's own name. The jobs a and a/b do not exclude each other.
func Job(name string) (Resource, error) { return newResource(KindJob, name) }

// OfJob returns what a run of the job locks, in normal form: the given resources and, unless its
// runs may overlap, the job's own name.
func OfJob(name string, resources []Request, mayOverlap bool) ([]Request, error) {
	if mayOverlap {
		return Normalize(resources)
	}
	own, err := Job(name)
	if err != nil {
		return nil, err
	}
	return Normalize(append(slices.Clone(resources), Request{Resource: own, Mode: Exclusive}))
}

// Group returns the resource of a group of jobs. Its name has no "/".
func Group(name string) (Resource, error) {
	if strings.Contains(name, "/") {
		return Resource{}, fmt.Errorf("%w: group name %q has a slash", ErrBadName, name)
	}
	return newResource(KindGroup, name)
}

// IsKind reports whether text is a kind of resource.
func IsKind(text string) bool { return slices.Contains(kinds(), Kind(text)) }

func kinds() []Kind {
	return []Kind{KindTable, KindPath, KindSlot, KindJob, KindGroup, KindMemo}
}

// ParseKey is the inverse of Resource.Key.
func ParseKey(key string) (Resource, error) {
	kind, path, ok := strings.Cut(key, ":")
	if !ok || !IsKind(kind) {
		return Resource{}, fmt.Errorf("%w: key %q has no known kind before a colon", ErrBadName,
			key)
	}
	return newResource(Kind(kind), path)
}

func newResource(kind Kind, path string) (Resource, error) {
	if path == "" {
		return Resource{}, fmt.Errorf("%w: a %s needs a name, found an empty one", ErrBadName, kind)
	}
	if len(path) > maxNameBytes {
		return Resource{}, fmt.Errorf("%w: a %s name has at most %d bytes, found %d", ErrBadName,
			kind, maxNameBytes, len(path))
	}
	if !utf8.ValidString(path) {
		return Resource{}, fmt.Errorf("%w: %s name %q is not valid UTF-8", ErrBadName, kind, path)
	}
	if i := strings.IndexFunc(path, runes.IsControl); i >= 0 {
		return Resource{}, fmt.Errorf("%w: %s name %q has a control character at byte %d",
			ErrBadName, kind, path, i)
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return Resource{}, fmt.Errorf("%w: %s name %q has an empty, %q or %q segment",
				ErrBadName, kind, path, ".", "..")
		}
	}
	return resourceOf(kind, path), nil
}

// resourceOf is newResource for a path that is known to be valid.
func resourceOf(kind Kind, path string) Resource {
	return Resource{key: string(kind) + ":" + path, kind: len(kind)}
}

// Kind returns the resource's kind.
func (r Resource) Kind() Kind { return Kind(r.key[:r.kind]) }

// Path returns the name without its kind, such as "public/orders".
func (r Resource) Path() string { return strings.TrimPrefix(r.key[r.kind:], ":") }

// IsZero reports whether r is the zero Resource.
func (r Resource) IsZero() bool { return r.key == "" }

// Key returns the form used in stores and keys, such as "table:public/orders". It allocates
// nothing.
func (r Resource) Key() string { return r.key }

// String returns the form for people: the path of a table, the key of any other resource. If the
// path of a table looks like a key, String returns its key.
func (r Resource) String() string {
	path := r.Path()
	if r.Kind() != KindTable {
		return r.key
	}
	if !strings.Contains(path, ":") {
		return path
	}
	if _, err := ParseKey(path); err == nil {
		return r.key
	}
	return path
}

// Parent returns the resource directly above r, and whether there is one. The parent of a/b/c is
// a/b.
func (r Resource) Parent() (Resource, bool) {
	end := strings.LastIndexByte(r.key, '/')
	if end < 0 || !r.Kind().HasHierarchy() {
		return Resource{}, false
	}
	return Resource{key: r.key[:end], kind: r.kind}, true
}

// Ancestors returns the resources above r, the topmost first. For a/b/c it returns a and a/b.
func (r Resource) Ancestors() []Resource {
	var above []Resource
	for parent, ok := r.Parent(); ok; parent, ok = parent.Parent() {
		above = append(above, parent)
	}
	slices.Reverse(above)
	return above
}

// Related reports whether the two resources are the same, or one lies beneath the other.
func (r Resource) Related(other Resource) bool {
	return r == other || r.isBeneath(other) || other.isBeneath(r)
}

func (r Resource) isBeneath(other Resource) bool {
	rest, cut := strings.CutPrefix(r.key, other.key)
	return cut && strings.HasPrefix(rest, "/") && r.kind == other.kind && r.Kind().HasHierarchy()
}

// Mode is how a request locks its resource.
type Mode string

const (
	Exclusive Mode = "exclusive" // excludes all others on it, above it and beneath it
	Shared    Mode = "shared"    // compatible with other shared locks only
	Slotted   Mode = "slot"      // one of the resource's n slots
)

// Request is one resource and its mode.
type Request struct {
	Resource Resource
	Mode     Mode
	Slots    int // number of slots of the resource, 1 to 1,000, for Slotted; else 0
}

// Conflict reports whether the two requests can never be held at the same time. Two slotted
// requests for one name do not conflict: the number of held slots decides.
func Conflict(a, b Request) bool {
	if !a.Resource.Related(b.Resource) {
		return false
	}
	if a.Mode == Shared && b.Mode == Shared {
		return false
	}
	sameName := a.Resource == b.Resource
	return !(a.Mode == Slotted && b.Mode == Slotted && sameName)
}

// Normalize returns the requests in normal form: sorted by key, without repetitions, in a new
// slice. It returns a *RequestError for more than 1,000 requests, a resource in two modes, an
// unknown mode, and slots out of range. It returns an error that wraps ErrBadName for a zero
// resource.
func Normalize(requests []Request) ([]Request, error) {
	if len(requests) > MaxRequests {
		return nil, &RequestError{Problem: fmt.Sprintf("at most %d resources in one lock, found %d",
			MaxRequests, len(requests))}
	}
	sorted := slices.Clone(requests)
	slices.SortFunc(sorted, func(a, b Request) int {
		return strings.Compare(a.Resource.key, b.Resource.key)
	})
	for i, r := range sorted {
		if err := r.check(); err != nil {
			return nil, err
		}
		if i > 0 && sorted[i-1].Resource == r.Resource && sorted[i-1] != r {
			return nil, r.bad("asked for in two ways: %s and %s", sorted[i-1].way(), r.way())
		}
	}
	return slices.Compact(sorted), nil
}

// way describes the mode of a request in words.
func (r Request) way() string {
	if r.Mode == Slotted {
		return "one of " + plural.Of(r.Slots, "slot", "slots")
	}
	return string(r.Mode)
}

func (r Request) check() error {
	if r.Resource.IsZero() {
		return fmt.Errorf("%w: empty", ErrBadName)
	}
	switch r.Mode {
	case Exclusive, Shared:
		if r.Slots != 0 {
			return r.bad("only slotted locks have slots, found %d", r.Slots)
		}
	case Slotted:
		if r.Slots < 1 || r.Slots > maxSlots {
			return r.bad("slots are 1 to %d, found %d", maxSlots, r.Slots)
		}
	default:
		return r.bad("unknown mode %q", r.Mode)
	}
	return nil
}

func (r Request) bad(format string, args ...any) error {
	return &RequestError{Resource: r.Resource, Problem: fmt.Sprintf(format, args...)}
}
