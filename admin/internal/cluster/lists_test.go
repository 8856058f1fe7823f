package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestOverviewListsTheMostUrgentResources checks that of many busy resources the page lists those
// with the most waiting runs and those that are held longest, in the order of all.
func TestOverviewListsTheMostUrgentResources(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	o := Overview{Resources: []locks.ResourceState{{Resource: "free", State: locks.HeldNot}}}
	for i := range 40 {
		o.Resources = append(o.Resources, locks.ResourceState{
			Resource: fmt.Sprintf("t%02d", i), State: locks.HeldItself,
			Locks: []locks.Lock{{Since: noon.Add(time.Duration(-i) * time.Minute)}},
		})
	}
	o.Resources[6].Waiting, o.Resources[3].Waiting = 2, 7 // t05 and t02
	var got []string
	for _, r := range o.BusyShown() {
		got = append(got, r.Resource)
	}
	want := "[t02 t05 t30 t31 t32 t33 t34 t35 t36 t37 t38 t39]"
	if fmt.Sprint(got) != want || o.BusyMore() != 28 {
		t.Errorf("got %v and %d more, want %s and 28 more", got, o.BusyMore(), want)
	}
}

// TestBusyWorkersAreThoseOfTheListedRuns checks that the overview does not have a running run and
// no busy worker, as the last heartbeat may say.
func TestBusyWorkersAreThoseOfTheListedRuns(t *testing.T) {
	replica := func(name string, state ReplicaState) Replica {
		return Replica{ReplicaView: storage.ReplicaView{Name: name, Workers: 2, Busy: 2},
			State: state}
	}
	o := Overview{Replicas: []Replica{replica("a", ReplicaLive), replica("b", ReplicaLate),
		replica("c", ReplicaLost)}}
	for _, step := range []struct {
		starts string // the replica of one more running run
		want   Workers
	}{
		{"", Workers{Busy: 0, Total: 4}},
		{"a", Workers{Busy: 1, Total: 4}},
		{"c", Workers{Busy: 1, Total: 4}}, // no live replica runs it
		{"b", Workers{Busy: 2, Total: 4}},
	} {
		if step.starts != "" {
			o.Running = append(o.Running, storage.Record{Replica: step.starts})
		}
		if got := o.Workers(); got != step.want {
			t.Errorf("with %d running runs: %+v, want %+v", len(o.Running), got, step.want)
		}
	}
}
