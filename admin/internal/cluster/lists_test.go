package cluster

import (
	"testing"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

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
