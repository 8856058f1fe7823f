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
		after  *RunCursor
		more   bool
	}{
		{Pruned{}, first, false}, {Pruned{Busy: true}, first, false},
		{Pruned{Runs: 10, Audited: 9, Pauses: 9, Waits: 9, Definitions: 10}, first, false},
		{Pruned{Next: second}, second, true}, {Pruned{Runs: 10, More: true}, first, true},
		{Pruned{Audited: 10}, first, true}, {Pruned{Audited: 11}, first, true},
		{Pruned{Pauses: 10}, first, true}, {Pruned{Waits: 10}, first, true},
		{Pruned{Next: second, Waits: 10}, second, true},
	} {
		rest, more := request.Rest(c.pruned)
		if want := (PruneRequest{Keep: time.Hour, Limit: 10, After: c.after}); rest != want ||
			more != c.more {
			t.Errorf("%+v: got %+v, %t, want %+v, %t", c.pruned, rest, more, want, c.more)
		}
	}
	// what a round deletes once is not deleted again
	begin := PruneRequest{Keep: time.Hour, Limit: 10}
	if rest, more := begin.Rest(Pruned{Waits: 10}); !more || rest.After == nil ||
		!rest.After.CreatedAt.Equal(time.Unix(0, 0)) {
		t.Errorf("after the first batch: got %+v, %t", rest, more)
	}
	begin.Triggered = true
	if rest, more := begin.Rest(Pruned{More: true}); !more || rest.After != nil {
		t.Errorf("runs of triggers: got %+v, %t", rest, more)
	}
}
