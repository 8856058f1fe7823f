package locking

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// anyRequest draws a valid request.
func anyRequest() *rapid.Generator[Request] {
	return rapid.Custom(func(t *rapid.T) Request {
		return requestOn(anyResource().Draw(t, "resource")).Draw(t, "request")
	})
}

// requestOn draws a valid request for one resource.
func requestOn(resource Resource) *rapid.Generator[Request] {
	return rapid.Custom(func(t *rapid.T) Request {
		r := Request{Resource: resource,
			Mode: rapid.SampledFrom([]Mode{Exclusive, Shared, Slotted}).Draw(t, "mode")}
		if r.Mode == Slotted {
			r.Slots = rapid.SampledFrom([]int{1, 2, maxSlots}).Draw(t, "slots")
		}
		return r
	})
}

// TestConflictMatchesTheGuarantee compares Conflict with the text of the guarantee, written with
// segments instead of prefixes.
func TestConflictMatchesTheGuarantee(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyRequest().Draw(t, "a"), anyRequest().Draw(t, "b")
		one, other := strings.Split(a.Resource.Path(), "/"), strings.Split(b.Resource.Path(), "/")
		common := min(len(one), len(other))
		covers := a.Resource == b.Resource || a.Resource.Kind() == b.Resource.Kind() &&
			a.Resource.Kind().HasHierarchy() && slices.Equal(one[:common], other[:common])
		readers := a.Mode == Shared && b.Mode == Shared
		inSlots := a.Mode == Slotted && b.Mode == Slotted && len(one) == len(other)
		if want := covers && !readers && !inSlots; Conflict(a, b) != want {
			t.Fatalf("%v and %v: %v, want %v", a, b, !want, want)
		}
	})
}

func TestConflictIsSymmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyRequest().Draw(t, "a"), anyRequest().Draw(t, "b")
		if Conflict(a, b) != Conflict(b, a) {
			t.Fatalf("%v and %v: %v, the other way %v", a, b, Conflict(a, b), Conflict(b, a))
		}
	})
}

func TestAncestorsAndDescendantsConflict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		below := anyResource().Filter(func(r Resource) bool { return len(r.Ancestors()) > 0 }).
			Draw(t, "below")
		above := rapid.SampledFrom(below.Ancestors()).Draw(t, "above")
		a, b := requestOn(above).Draw(t, "request above"), requestOn(below).Draw(t, "request below")
		if want := a.Mode != Shared || b.Mode != Shared; Conflict(a, b) != want {
			t.Fatalf("%v above %v: %v, want %v", a, b, Conflict(a, b), want)
		}
	})
}

// TestSiblingsNeverConflict draws two names with a common ancestor, and descendants of each.
func TestSiblingsNeverConflict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := anyResource().Draw(t, "kind").Kind()
		beneath := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b"}), 0, 3)
		common := beneath.Draw(t, "common")
		parted := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "ab", "a b", "b", "A"}), 2,
			2, rapid.ID[string]).Draw(t, "parted")
		named := func(i int) Request {
			path := slices.Concat(common, parted[i:i+1], beneath.Draw(t, "beneath"))
			return requestOn(resourceOf(kind, strings.Join(path, "/"))).Draw(t, "request")
		}
		if a, b := named(0), named(1); Conflict(a, b) {
			t.Fatalf("%v conflicts with %v", a, b)
		}
	})
}

func TestSharedRequestsNeverConflict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Request{Resource: anyResource().Draw(t, "a"), Mode: Shared}
		b := Request{Resource: anyResource().Draw(t, "b"), Mode: Shared}
		if Conflict(a, b) {
			t.Fatalf("%v conflicts with %v", a, b)
		}
	})
}

// TestSlotsConflict checks that two slot requests of one name do not conflict, whatever their
// numbers. Other related requests conflict with them.
func TestSlotsConflict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		resource := anyResource().Draw(t, "resource")
		slotted := requestOn(resource).Filter(func(r Request) bool { return r.Mode == Slotted })
		a, b := slotted.Draw(t, "a"), slotted.Draw(t, "b")
		if Conflict(a, b) {
			t.Fatalf("%v conflicts with %v", a, b)
		}
		other := requestOn(resource).Filter(func(r Request) bool { return r.Mode != Slotted }).
			Draw(t, "other")
		if !Conflict(a, other) {
			t.Fatalf("%v does not conflict with %v", a, other)
		}
	})
}

// TestKindsNeverConflict uses one name in two kinds.
func TestKindsNeverConflict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyRequest().Draw(t, "a"), anyRequest().Draw(t, "b")
		kinds := rapid.Permutation([]Kind{KindTable, KindPath, KindSlot, KindJob}).Draw(t, "kinds")
		names := []string{a.Resource.Path(), b.Resource.Path()}
		if rapid.Bool().Draw(t, "one name") {
			names[1] = names[0]
		}
		a.Resource, b.Resource = resourceOf(kinds[0], names[0]), resourceOf(kinds[1], names[1])
		if a.Resource.Related(b.Resource) || Conflict(a, b) {
			t.Fatalf("%v and %v meet", a, b)
		}
		if a.Resource.Key() == b.Resource.Key() || a.Resource.String() == b.Resource.String() {
			t.Fatalf("%v and %v look alike", a.Resource.Key(), b.Resource.Key())
		}
	})
}

// TestParsedTextRoundTrip parses any text and formats the result. TestResourcesRoundTrip does the
// opposite.
func TestParsedTextRoundTrip(t *testing.T) {
	text := rapid.OneOf(rapid.String(),
		rapid.StringMatching(`(table|path|slot|job|gate)?:?[a:/. ü]{0,8}`))
	rapid.Check(t, func(t *rapid.T) {
		s := text.Draw(t, "text")
		if r, err := ParseKey(s); err == nil && r.Key() != s {
			t.Fatalf("key %q became %q", s, r.Key())
		}
		// The long form of a table name is valid too.
		if r, err := ParseDisplay(s); err == nil && r.String() != s && r.Key() != s {
			t.Fatalf("%q became %q", s, r.String())
		}
	})
}

// TestNormalizeRefusesTwoModes requests a resource in two modes.
func TestNormalizeRefusesTwoModes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		few := rapid.SampledFrom([]Resource{resourceOf(KindPath, "a"), resourceOf(KindPath, "a/b"),
			resourceOf(KindTable, "a")})
		requests := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Request {
			return requestOn(few.Draw(t, "resource")).Draw(t, "request")
		}), 0, 4).Draw(t, "requests")
		ways := map[Resource]Request{}
		clash := slices.ContainsFunc(requests, func(r Request) bool {
			before, seen := ways[r.Resource]
			ways[r.Resource] = r
			return seen && before != r
		})
		if got, err := Normalize(requests); (err != nil) != clash {
			t.Fatalf("%v became %v, %v, want a refusal: %v", requests, got, err, clash)
		}
	})
}
