package locking

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestKeys(t *testing.T) {
	if got := keyOf("cluster", "table:public/orders"); got != "cluster:table:public/orders" {
		t.Errorf("got %q", got)
	}
	for _, name := range []string{"path:with space", "path:" + strings.Repeat("n", 250),
		"path:a\u00a0b", "gate:a\x00"} {
		got := keyOf("cluster", name)
		if !strings.HasPrefix(got, "cluster:#") || CheckKey(got) != nil {
			t.Errorf("%.20q gave %q", name, got)
		}
	}
}

func TestEveryNameHasAKeyOfItsOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		one, other := keyOf("cluster", "path:"+a), keyOf("cluster", "path:"+b)
		if (a == b) != (one == other) {
			t.Fatalf("%q and %q gave %q and %q", a, b, one, other)
		}
		if err := CheckKey(one); err != nil {
			t.Fatal(err)
		}
	})
}

func TestValuesRoundTripAndStaySmall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		resource := resourceOf(KindPath,
			strings.Repeat(rapid.SampledFrom([]string{`"`, "ü", "<", "\u2028"}).Draw(t, "letter"),
				rapid.IntRange(1, 341).Draw(t, "length")))
		c := content{Nonce: "n-1", Resource: resource.Key(), Holder: Holder{
			Owner: Owner{Replica: rapid.String().Draw(t, "replica"),
				Job: strings.Repeat(rapid.String().Draw(t, "job"), 50), Run: "r"},
			Since: time.Unix(1_700_000_000, 123_456_789).UTC(),
		}}
		value := c.encode()
		if len(value) > 4096 {
			t.Fatalf("%d bytes", len(value))
		}
		got, ok := decode(value, resource.Key())
		if !ok || got.Nonce != c.Nonce || got.Run != "r" || !got.Since.Equal(c.Since) {
			t.Fatalf("%s gave %+v, %v", value, got, ok)
		}
		if _, ok := decode(value, "path:other"); ok {
			t.Fatal("owner of another resource's value: got this one, want an unknown holder")
		}
	})
}

func TestNonces(t *testing.T) {
	n, other := newNonces(), newNonces()
	nonce := n.draw()
	if n.draw() == nonce || other.draw() == nonce {
		t.Error("two nonces: got equal ones, want different ones")
	}
	if n.isStray(nonce) || other.isStray(nonce) {
		t.Error("nonce in use: got a stray, want none")
	}
	n.drop(nonce)
	if !n.isStray(nonce) || other.isStray(nonce) {
		t.Error("dropped nonce: got another answer, want a stray of its own process only")
	}
}

func TestStraysAreBounded(t *testing.T) {
	var s strays
	n := newNonces()
	for range maxStrays + 10 {
		s.note(advisoryLock{nonce: n.draw()}, time.Now())
	}
	if got := len(s.list()); got != maxStrays {
		t.Errorf("%d strays", got)
	}
}

func TestHolderInWords(t *testing.T) {
	tests := map[string]Holder{
		"an unknown holder":               {},
		"job sales (run r1) on replica-1": {Owner: Owner{"replica-1", "sales", "r1"}},
		"job sales":                       {Owner: Owner{Job: "sales"}},
		"a program on replica-1":          {Owner: Owner{Replica: "replica-1"}},
		"a program (run r1) on replica-1": {Owner: Owner{Replica: "replica-1", Run: "r1"}},
	}
	for want, holder := range tests {
		if got := holder.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
