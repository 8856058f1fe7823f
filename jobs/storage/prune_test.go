package storage

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestPruneRequests(t *testing.T) {
	all := PruneRequest{Keep: 48 * time.Hour, Limit: 10}
	if got := PruneRequests(48*time.Hour, 0, 10); !slices.Equal(got, []PruneRequest{all}) {
		t.Errorf("got %+v, want %+v", got, all)
	}
	triggered := PruneRequest{Keep: time.Hour, Triggered: true, Limit: 10}
	if got := PruneRequests(48*time.Hour, time.Hour, 10); !slices.Equal(got,
		[]PruneRequest{all, triggered}) {
		t.Errorf("got %+v, want %+v and %+v", got, all, triggered)
	}
}

func TestPruneRequestRest(t *testing.T) {
	first, second := &RunCursor{ID: uuid.New()}, &RunCursor{ID: uuid.New()}
	request := PruneRequest{Keep: time.Hour, Limit: 10, After: first}
	for _, c := range []struct {
		pruned Pruned
		more   bool
	}{
		{Pruned{}, false}, {Pruned{Busy: true}, false},
		{Pruned{Runs: 10, Audited: 9, Pauses: 9, Definitions: 10}, false},
		{Pruned{Next: second}, true}, {Pruned{Runs: 10, More: true}, true},
		{Pruned{Audited: 10}, true}, {Pruned{Pauses: 10}, true},
	} {
		rest, more := request.Rest(c.pruned)
		if want := (PruneRequest{Keep: time.Hour, Limit: 10, After: c.pruned.Next}); rest != want ||
			more != c.more {
			t.Errorf("%+v: got %+v, %t, want %+v, %t", c.pruned, rest, more, want, c.more)
		}
	}
}
