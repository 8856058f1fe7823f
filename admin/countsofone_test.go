package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// TestCountsOfOne checks the words of pages after the number one.
func TestCountsOfOne(t *testing.T) {
	h := &history{now: noon, replicas: []storage.ReplicaView{
		liveReplica(1, "replica-1", 2*time.Second, 0)}}
	h.replicas[0].Workers = 1
	api, err := locking.Slot("vendor-api")
	if err != nil {
		t.Fatal(err)
	}
	vendor := job("import", "0 5 * * *")
	vendor.Resources = []locking.Request{{Resource: api, Mode: locking.Slotted, Slots: 1}}
	h.jobs = append(h.jobs, vendor)
	server := newServer(t, options(h)).Handler()
	for path, want := range map[string]string{"/": "0 of 1 worker busy",
		"/jobs/import": ">slot of 1 slot</span>"} {
		page := strings.Join(strings.Fields(get(t, server, path).Body.String()), " ")
		if !strings.Contains(page, want) {
			t.Errorf("%s has no %q: %s", path, want, page)
		}
	}
	held := locks.ResourceNode{State: locks.HeldItself,
		Locks: []locks.Lock{{Mode: locking.Slotted, Slots: 1}}}
	if got := held.Slots(); got != "1 of 1 slot" {
		t.Errorf("got %q", got)
	}
	alone := locks.Timeline{Chart: &charts.Chart{Overlapping: 1}}
	if got := strings.Join(alone.Notes(), " "); !strings.HasPrefix(got, "1 run overlaps, ") {
		t.Errorf("got %q", got)
	}
}
