package locking

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/internal/test/speedtest"
)

func TestNames(t *testing.T) {
	tests := []struct {
		kind Kind
		name string
		want string // the path; empty: refused
	}{
		{KindPath, "shared/marketing", "shared/marketing"},
		{KindPath, "/shared/marketing/", "shared/marketing"},
		{KindPath, "Shared", "Shared"},
		{KindPath, "größe/with space", "größe/with space"},
		{KindPath, "...", "..."},
		{KindPath, strings.Repeat("n", 1024), strings.Repeat("n", 1024)},
		{KindPath, strings.Repeat("n", 1025), ""},
		{KindPath, "", ""},
		{KindPath, "/", ""},
		{KindPath, "a//b", ""},
		{KindPath, "a/./b", ""},
		{KindPath, "../a", ""},
		{KindPath, "a/..", ""},
		{KindPath, "a\nb", ""},
		{KindPath, "a\x00", ""},
		{KindPath, "a\u0085b", ""},
		{KindPath, "a\u202eb", ""},
		{KindPath, "\xff", ""},
		{KindSlot, "vendor-api", "vendor-api"},
		{KindSlot, "", ""},
		{KindJob, "reports/daily", "reports/daily"},
		{KindJob, "/reports", ""},
	}
	makers := map[Kind]func(string) (Resource, error){KindPath: Path, KindSlot: Slot, KindJob: Job}
	for _, test := range tests {
		got, err := makers[test.kind](test.name)
		if test.want == "" {
			if !errors.Is(err, ErrBadName) || !got.IsZero() {
				t.Errorf("%s %.30q gave %v, %v; want it to be refused", test.kind, test.name,
					got, err)
			}
			continue
		}
		if err != nil || got.Path() != test.want || got.Kind() != test.kind {
			t.Errorf("%s %.30q gave %v, %v", test.kind, test.name, got, err)
		}
	}
}

func TestParseKeyRefuses(t *testing.T) {
	for _, key := range []string{"", "path", "path:", "gate:a", "#:a", ":a", "path:a//b",
		"PATH:a"} {
		if r, err := ParseKey(key); !errors.Is(err, ErrBadName) {
			t.Errorf("%q gave %v, %v", key, r, err)
		}
	}
}

func TestAncestors(t *testing.T) {
	r := resourceOf(KindTable, "a/b/c")
	want := []Resource{resourceOf(KindTable, "a"), resourceOf(KindTable, "a/b")}
	if got := r.Ancestors(); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if got := resourceOf(KindTable, "a").Ancestors(); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestParent(t *testing.T) {
	for key, want := range map[string]string{"table:a/b/c": "table:a/b", "table:a/b": "table:a",
		"table:a": "", "slot:a/b": "slot:a", "job:a/b": "", "group:a": "", "memo:a/b": ""} {
		r, err := ParseKey(key)
		if err != nil {
			t.Fatal(err)
		}
		parent, ok := r.Parent()
		if parent.Key() != want || ok != (want != "") || ok && parent.Kind() != r.Kind() {
			t.Errorf("the parent of %s is %q, %v, want %q", key, parent.Key(), ok, want)
		}
	}
	if parent, ok := (Resource{}).Parent(); ok {
		t.Errorf("the zero Resource has the parent %v", parent)
	}
}

func TestRelated(t *testing.T) {
	tests := []struct {
		a, b string
		want bool
	}{
		{"path:a", "path:a", true},
		{"path:a", "path:a/b", true},
		{"path:a", "path:a/b/c", true},
		{"path:a/b", "path:a/c", false},
		{"path:a", "path:ab", false},
		{"path:a", "path:a-b", false},
		{"path:a", "table:a", false},
		{"path:a", "path:b", false},
		{"slot:a", "slot:a/b", true},
		{"job:a/b", "job:a/b", true},
		{"job:a", "job:a/b", false},
		{"memo:a", "memo:a/b", false},
	}
	for _, test := range tests {
		a, b := parsed(t, test.a), parsed(t, test.b)
		if a.Related(b) != test.want || b.Related(a) != test.want {
			t.Errorf("%s and %s: want %v both ways", a, b, test.want)
		}
	}
}

func TestConflict(t *testing.T) {
	request := func(name string, mode Mode) Request {
		r := Request{Resource: parsed(t, "path:"+name), Mode: mode}
		if mode == Slotted {
			r.Slots = 2
		}
		return r
	}
	tests := []struct {
		a, b Request
		want bool
	}{
		{request("a", Exclusive), request("a", Exclusive), true},
		{request("a", Exclusive), request("a", Shared), true},
		{request("a", Exclusive), request("a/b", Shared), true},
		{request("a", Shared), request("a/b", Exclusive), true},
		{request("a", Shared), request("a", Shared), false},
		{request("a", Shared), request("a/b", Shared), false},
		{request("a", Slotted), request("a", Slotted), false},
		{request("a", Slotted), request("a/b", Slotted), true},
		{request("a", Slotted), request("a", Shared), true},
		{request("a", Exclusive), request("b", Exclusive), false},
	}
	for _, test := range tests {
		if Conflict(test.a, test.b) != test.want || Conflict(test.b, test.a) != test.want {
			t.Errorf("%v and %v: want %v both ways", test.a, test.b, test.want)
		}
	}
}

func TestNormalizeRefuses(t *testing.T) {
	a := parsed(t, "path:a")
	tests := map[string][]Request{
		"two modes":           {{Resource: a, Mode: Exclusive}, {Resource: a, Mode: Shared}},
		"two numbers":         {{Resource: a, Mode: Slotted, Slots: 1}, {Resource: a, Mode: Slotted, Slots: 2}},
		"no resource":         {{Mode: Exclusive}},
		"no mode":             {{Resource: a}},
		"slots of a shared":   {{Resource: a, Mode: Shared, Slots: 1}},
		"no slots":            {{Resource: a, Mode: Slotted}},
		"too many slots":      {{Resource: a, Mode: Slotted, Slots: 1001}},
		"negative slots":      {{Resource: a, Mode: Slotted, Slots: -1}},
		"too many resources ": slices.Repeat([]Request{{Resource: a, Mode: Exclusive}}, 1001),
	}
	for name, requests := range tests {
		got, err := Normalize(requests)
		var bad *RequestError
		if want := errors.As(err, &bad) && errors.Is(err, ErrBadRequest); got != nil ||
			want == (name == "no resource") || !want && !errors.Is(err, ErrBadName) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

// TestNormalizeNamesTwoModes checks the words of the error for one resource in two modes.
func TestNormalizeNamesTwoModes(t *testing.T) {
	a := parsed(t, "path:a")
	_, err := Normalize([]Request{{Resource: a, Mode: Slotted, Slots: 1},
		{Resource: a, Mode: Slotted, Slots: 2}})
	if want := "one of 1 slot and one of 2 slots"; err == nil ||
		!strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func parsed(t *testing.T, key string) Resource {
	t.Helper()
	r, err := ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// anyResource draws from few names, so that relations are common.
func anyResource() *rapid.Generator[Resource] {
	return rapid.Custom(func(t *rapid.T) Resource {
		segments := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "a:b", " ", "ü"}), 1,
			4).Draw(t, "segments")
		kind := rapid.SampledFrom([]Kind{KindTable, KindPath, KindSlot, KindJob}).Draw(t, "kind")
		return resourceOf(kind, strings.Join(segments, "/"))
	})
}

func TestResourcesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyResource().Draw(t, "resource")
		if got, err := ParseKey(r.Key()); err != nil || got != r {
			t.Fatalf("key %q gave %v, %v", r.Key(), got, err)
		}
		if got, err := ParseDisplay(r.String()); err != nil || got != r {
			t.Fatalf("%q gave %v, %v", r.String(), got, err)
		}
	})
	odd := resourceOf(KindTable, "path:a/b")
	if got, err := ParseDisplay(odd.String()); err != nil || got != odd {
		t.Errorf("%q gave %v, %v", odd.String(), got, err)
	}
}

func TestRelatedMeansSameOrDescendant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyResource().Draw(t, "a"), anyResource().Draw(t, "b")
		if a.Related(b) != b.Related(a) {
			t.Fatalf("%v and %v: not symmetric", a, b)
		}
		if !a.Related(a) {
			t.Fatalf("%v is not related to itself", a)
		}
		want := a == b || slices.Contains(a.Ancestors(), b) || slices.Contains(b.Ancestors(), a)
		if a.Related(b) != want {
			t.Fatalf("%v and %v: %v, want %v", a, b, a.Related(b), want)
		}
		sibling := resourceOf(a.Kind(), a.Path()+"x")
		if a.Related(sibling) {
			t.Fatalf("%v and its sibling %v", a, sibling)
		}
	})
}

func TestNormalizeIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var requests []Request
		ways := map[Resource]Request{}
		for _, r := range rapid.SliceOfN(anyResource(), 0, 20).Draw(t, "resources") {
			if _, seen := ways[r]; !seen {
				ways[r] = requestOn(r).Draw(t, "request")
			}
			requests = append(requests, ways[r])
		}
		before := slices.Clone(requests)
		once, err := Normalize(requests)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(requests, before) {
			t.Fatal("argument of Normalize: got it changed, want it unchanged")
		}
		twice, err := Normalize(once)
		if err != nil || !slices.Equal(once, twice) {
			t.Fatalf("%v became %v, %v", once, twice, err)
		}
		for i := range once {
			if i > 0 && once[i-1].Resource.Key() >= once[i].Resource.Key() {
				t.Fatalf("not sorted: %v", once)
			}
		}
		for _, r := range requests {
			if !slices.Contains(once, r) {
				t.Fatalf("%v is gone", r)
			}
		}
		shuffled, err := Normalize(rapid.Permutation(requests).Draw(t, "order"))
		if err != nil || !slices.Equal(once, shuffled) {
			t.Fatalf("another order gave %v, %v", shuffled, err)
		}
	})
}

func FuzzPath(f *testing.F) {
	for _, seed := range []string{"a", "/a/b/", "a//b", "..", "a\x00", "\xff", "table:a",
		strings.Repeat("n", 1025)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		speedtest.Within10ms(t, name, func() { _, _ = Path(name) })
		r, err := Path(name)
		if err != nil {
			if !errors.Is(err, ErrBadName) || !r.IsZero() {
				t.Fatalf("%q gave %v, %v", name, r, err)
			}
			return
		}
		if again, err := Path(r.Path()); err != nil || again != r {
			t.Fatalf("%q became %q and then %v, %v", name, r.Path(), again, err)
		}
		if again, err := ParseKey(r.Key()); err != nil || again != r {
			t.Fatalf("key %q gave %v, %v", r.Key(), again, err)
		}
		if err := CheckKey(keyOf("namespace", r.Key())); err != nil {
			t.Fatalf("%q: %v", name, err)
		}
	})
}

func FuzzParseDisplay(f *testing.F) {
	for _, seed := range []string{"public/orders", "path:a/b", "slot:vendor-api", "job:a b",
		"group:%2F", "memo:x", ":", "table:", "x:y", "a//b", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		speedtest.Within10ms(t, text, func() { _, _ = ParseDisplay(text) })
		r, err := ParseDisplay(text)
		if err != nil {
			if !errors.Is(err, ErrBadName) || !r.IsZero() {
				t.Fatalf("%q gave %v, %v", text, r, err)
			}
			return
		}
		if again, err := ParseDisplay(r.String()); err != nil || again != r {
			t.Fatalf("%q became %q and then %v, %v", text, r, again, err)
		}
	})
}
