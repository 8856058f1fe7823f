package main

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/fleet"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
)

// TestMain runs the program instead of the tests if a test has started the binary as a crew.
func TestMain(m *testing.M) {
	if fleet.Joining() {
		if err := work(context.Background(), os.Args[1:]); err != nil {
			println(err.Error())
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestLocationsMatchOnePass(t *testing.T) {
	if testing.Short() {
		t.Skip("needs PostgreSQL and memcached: run without -short")
	}
	d, err := newDepot(t.Context(),
		options{trains: soak.Pick(8, 40), locations: 5, moves: 5, processes: 3, workers: 3,
			seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.close(); err != nil {
			t.Error(err)
		}
	})
	r, err := d.process(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := r.check(&table); err != nil {
		t.Error(err)
	}
	t.Logf("%d messages in %s; refused %d, postponed %d, early %d\n%s", r.messages, r.took,
		r.refused, r.postponed, r.early, &table)
	if r.refused+r.early == 0 {
		t.Error("refused locks: got none, want some")
	}
}

func TestTraffic(t *testing.T) {
	o := options{trains: 30, locations: 4, moves: 6, seed: 3}
	messages := traffic(o)
	if len(messages) != 30*8 {
		t.Fatalf("%d messages", len(messages))
	}
	at, number := map[string]string{}, map[string]int{}
	for _, m := range messages {
		if m.number != number[m.train]+1 || m.from != at[m.train] ||
			m.kind == moved && m.from == m.to {
			t.Fatalf("%+v follows message %d at %q", m, number[m.train], at[m.train])
		}
		number[m.train], at[m.train] = m.number, m.to
	}
	var sum counts
	for _, c := range onePass(messages) {
		sum.created, sum.arrived, sum.departed, sum.deleted = sum.created+c.created,
			sum.arrived+c.arrived, sum.departed+c.departed, sum.deleted+c.deleted
	}
	if want := (counts{30, 180, 180, 30}); sum != want {
		t.Errorf("in all %+v, want %+v", sum, want)
	}
}

func TestWrongCountsAreDetected(t *testing.T) {
	right := map[string]counts{"a": {1, 2, 3, 4}}
	for what, r := range map[string]result{
		"other count":      {found: map[string]counts{"a": {1, 2, 3, 5}}, wanted: right},
		"missing location": {found: map[string]counts{}, wanted: right},
		"changed":          {found: right, wanted: right, changed: 1},
	} {
		if r.check(io.Discard) == nil {
			t.Errorf("%s went through", what)
		}
	}
	if err := (&result{found: right, wanted: right}).check(io.Discard); err != nil {
		t.Error(err)
	}
}
