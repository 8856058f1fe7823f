package admin

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
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

// TestRunsOfReplicas checks that the number of the runs of a replica is that of the runs that the
// page lists, although the replicas were read earlier.
func TestRunsOfReplicas(t *testing.T) {
	h := &history{now: noon, replicas: []storage.ReplicaView{
		liveReplica(1, "replica-1", time.Second, 0), liveReplica(2, "replica-2", time.Second, 0),
		liveReplica(3, "replica-3", time.Second, 0)}}
	h.replicas[1].Running = 2  // which have ended
	h.replicas[2].Running = 30 // of which 25 run
	h.runs = []storage.Record{running(100, "load", "replica-1", time.Minute)}
	for i := range 25 {
		h.runs = append(h.runs, running(i, "load", "replica-3", time.Minute))
	}
	handler := newServer(t, options(h)).Handler()
	replicas := answered[[]Replica](t, get(t, handler, "/api/v1/replicas"), http.StatusOK)
	body := flat(get(t, handler, "/replicas").Body.String())
	summaries := regexp.MustCompile(`<summary>(\d+) runs?</summary>`).FindAllStringSubmatch(body, -1)
	for i, want := range []int{1, 0, 25} {
		if got := replicas[i]; got.Running != want || len(got.Runs) != want {
			t.Errorf("%s: got %d and %d runs, want %d", got.Name, got.Running, len(got.Runs), want)
		}
		if len(summaries) != 3 || summaries[i][1] != strconv.Itoa(want) {
			t.Errorf("the page has %q, want %d at %d", summaries, want, i)
		}
	}
	more := regexp.MustCompile(`href="([^"]*)">(\d+) more</a>`).FindAllStringSubmatch(body, -1)
	if len(more) != 1 || more[0][1] != "/runs?state=running&amp;replica=replica-3" ||
		more[0][2] != "5" {
		t.Errorf("the page says %q, want 5 more on the last replica only", more)
	}
}
