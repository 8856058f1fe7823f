package admin

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestBusyWorkersOfReplicas checks that the list of replicas counts busy workers by the runs that
// it lists, as the overview does, and not by the last heartbeat.
func TestBusyWorkersOfReplicas(t *testing.T) {
	h := &history{now: noon, replicas: []storage.ReplicaView{
		liveReplica(1, "replica-1", 2*time.Second, 0),
		liveReplica(2, "replica-2", 2*time.Second, 0)}}
	for i := range h.replicas {
		h.replicas[i].Workers, h.replicas[i].Busy = 4, 3
	}
	h.runs = []storage.Record{running(1, "load", "replica-1", time.Minute)}
	var replicas []Replica
	body := get(t, newServer(t, options(h)).Handler(), "/api/v1/replicas").Body.Bytes()
	if err := json.Unmarshal(body, &replicas); err != nil {
		t.Fatal(err)
	}
	if len(replicas) != 2 || replicas[0].Busy != 1 || replicas[1].Busy != 0 {
		t.Errorf("got %+v, want 1 and 0 busy workers", replicas)
	}
}
