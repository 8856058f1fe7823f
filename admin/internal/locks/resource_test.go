package locks

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// TestResourceStates compares the states of named, held and waited-for resources with those that
// the states of all resources, one after the other, give.
func TestResourceStates(t *testing.T) {
	table := func(name string) locking.Resource {
		resource, err := locking.Table(name, "public")
		if err != nil {
			t.Fatal(err)
		}
		return resource
	}
	vendor, err := locking.Slot("vendor-api")
	if err != nil {
		t.Fatal(err)
	}
	named := []locking.Resource{vendor}
	for i := range 9 {
		named = append(named, table(fmt.Sprintf("s%d.t%d", i%3, 9-i)))
	}
	named = append(named, table("s1.*"), table("s2.t1"), named[1]) // one of them twice
	lock := func(resource locking.Resource, token jobs.Token) Lock {
		return Lock{Resource: resource.String(), Token: token, resource: resource}
	}
	waits := storage.Record{BlockedBy: &jobs.Blocker{Resource: named[4].String()}}
	elsewhere := storage.Record{BlockedBy: &jobs.Blocker{Resource: "nobody/knows"}}
	for _, held := range [][]Lock{nil, {lock(named[2], 1)}, {lock(table("s0.*"), 2)},
		{lock(named[3], 3), lock(named[3], 4), lock(vendor, 5), lock(table("s9.other"), 6)},
		{lock(table("s1.t8"), 7), lock(table("s1.*"), 8)}} {
		waiting := []storage.Record{waits, waits, elsewhere, {}}
		got := newNamedResources(named).states(held, waiting)
		own, beneath := make(map[locking.Resource][]Lock), make(map[locking.Resource]int)
		all := slices.Clone(named)
		for _, l := range held {
			all = append(all, l.resource)
			own[l.resource] = append(own[l.resource], l)
			for _, above := range l.resource.Ancestors() {
				beneath[above]++
			}
		}
		var want []ResourceState
		seen := make(map[locking.Resource]bool)
		for _, resource := range all {
			if seen[resource] {
				continue
			}
			seen[resource] = true
			state := resourceState(resource, own, beneath[resource])
			if state.Resource == waits.BlockedBy.Resource {
				state.Waiting = 2
			}
			want = append(want, state)
		}
		slices.SortFunc(want, compareStates)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("locks %v:\ngot  %v\nwant %v", held, got, want)
		}
	}
}
