package rules

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/locking"
)

// noon is the time of the tests.
var noon = time.Date(2026, 6, 9, 12, 0, 0, 0, time.UTC)

// id returns the nth of ordered ids.
func id(n byte) uuid.UUID { return uuid.UUID{15: n} }

// resource parses a resource in the form of display texts.
func resource(t *testing.T, text string) locking.Resource {
	t.Helper()
	r, err := locking.ParseDisplay(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// contender returns a claim on the resource, or a waiting run if the token is 0.
func contender(t *testing.T, text string, mode locking.Mode, token jobs.Token,
	run byte) *Contender {
	t.Helper()
	c := &Contender{Token: token, Run: id(run),
		Request: locking.Request{Resource: resource(t, text), Mode: mode}}
	if token == 0 {
		c.Since = noon.Add(time.Duration(run) * time.Second)
	}
	if mode == locking.Slotted {
		c.Slots = 2
	}
	return c
}

// TestFirst checks the order of blockers. Each contender comes before all those after it.
func TestFirst(t *testing.T) {
	ordered := []*Contender{
		contender(t, "job:load", locking.Exclusive, 9, 1),
		contender(t, "public/a", locking.Exclusive, 7, 2),
		contender(t, "public/b", locking.Exclusive, 5, 3),
		contender(t, "public/b", locking.Exclusive, 6, 3),
		contender(t, "job:load", locking.Exclusive, 0, 4),
		contender(t, "public/a", locking.Exclusive, 0, 5),
		contender(t, "public/a", locking.Exclusive, 0, 6),
		nil,
	}
	for i, a := range ordered {
		for _, b := range ordered[i:] {
			if First(a, b) != a || First(b, a) != a {
				t.Errorf("got another first of %+v and %+v, want the one with index %d", a, b, i)
			}
		}
	}
}

func TestSearch(t *testing.T) {
	claim := func(text string, mode locking.Mode, token jobs.Token) *Contender {
		return contender(t, text, mode, token, byte(token))
	}
	for name, test := range map[string]struct {
		request    *Contender
		contenders []*Contender
		want       jobs.Token // 0: no blocker
	}{
		"nothing":              {claim("public/a", locking.Exclusive, 1), nil, 0},
		"another table":        {claim("public/a", locking.Exclusive, 1), []*Contender{claim("public/b", locking.Exclusive, 2)}, 0},
		"a holder":             {claim("public/a", locking.Exclusive, 1), []*Contender{claim("public/a", locking.Shared, 2)}, 2},
		"readers":              {claim("public/a", locking.Shared, 1), []*Contender{claim("public/a", locking.Shared, 2)}, 0},
		"the first of several": {claim("public/a", locking.Exclusive, 1), []*Contender{claim("public/a", locking.Shared, 3), claim("public/a", locking.Shared, 2)}, 2},
		"a free slot":          {claim("vendor", locking.Slotted, 1), []*Contender{claim("vendor", locking.Slotted, 2)}, 0},
		"no free slot":         {claim("vendor", locking.Slotted, 1), []*Contender{claim("vendor", locking.Slotted, 3), claim("vendor", locking.Slotted, 2)}, 2},
		"slots of others":      {claim("vendor", locking.Slotted, 1), []*Contender{claim("other", locking.Slotted, 2), claim("other", locking.Slotted, 3)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := Search{Request: test.request.Request}
			for _, c := range test.contenders {
				s.Add(c)
				if relevant := s.Counts(c.Request); !relevant && test.want != 0 {
					t.Errorf("claim %d does not count", c.Token)
				}
			}
			var got jobs.Token
			if b := s.Blocker(); b != nil {
				got = b.Token
			}
			if got != test.want {
				t.Errorf("got blocker %d, want %d", got, test.want)
			}
		})
	}
}

func TestConcernsIsFalseOnlyForReaders(t *testing.T) {
	modes := []locking.Mode{locking.Exclusive, locking.Shared, locking.Slotted}
	for _, mine := range modes {
		for _, other := range modes {
			s := Search{Request: locking.Request{Mode: mine}}
			want := mine != locking.Shared || other != locking.Shared
			if got := s.Concerns(other); got != want {
				t.Errorf("%v and %v: got %t, want %t", mine, other, got, want)
			}
		}
	}
}

func TestReasonOfContender(t *testing.T) {
	for _, test := range []struct {
		contender *Contender
		want      jobs.Reason
	}{
		{contender(t, "public/a", locking.Exclusive, 1, 1), reasons.LockHeld},
		{contender(t, "job:load", locking.Exclusive, 1, 1), reasons.Overlap},
		{contender(t, "group:night", locking.Slotted, 1, 1), reasons.GroupFull},
		{contender(t, "job:load", locking.Exclusive, 0, 1), reasons.OlderWaiter},
	} {
		if got := test.contender.Reason(); got != test.want {
			t.Errorf("%s: got %s, want %s", test.contender.Resource, got, test.want)
		}
	}
}

func TestOlder(t *testing.T) {
	c := Contender{Run: id(2), Since: noon}
	for _, test := range []struct {
		run   uuid.UUID
		since time.Time
		want  bool
	}{
		{id(1), noon.Add(time.Second), true},
		{id(9), noon.Add(-time.Second), false},
		{id(3), noon, true},
		{id(1), noon, false},
		{id(2), noon, false},
	} {
		if got := c.Older(test.run, test.since); got != test.want {
			t.Errorf("than run %s since %s: got %t, want %t", test.run, test.since, got, test.want)
		}
	}
}
