package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// drifting is a cluster whose replicas have different cron tables. The clock of one replica is
// wrong.
func drifting() Options {
	o := calm()
	h := o.Store.(*history)
	h.replicas = append(h.replicas, liveReplica(3, "replica-4", time.Second, 0))
	offset := int64(61_250)
	h.replicas[0].ConfigHash, h.replicas[1].ConfigHash, h.replicas[2].ConfigHash = "5f3a", "77b0",
		"5f3a"
	h.replicas[2].ClockOffset, h.replicas[2].NotReady = &offset,
		"its clock is 1m1.25s behind the store's, at most 10s are allowed"
	h.drift = []storage.JobDrift{
		{Job: "export-orders", Newest: []string{"replica-3"},
			Without: []string{"replica-1", "replica-4"}},
		{Job: "rollup-sales", Newest: []string{"replica-3"},
			Older: []string{"replica-1", "replica-4"}},
	}
	return o
}

// statusOf returns the status from the API.
func statusOf(t *testing.T, o Options) Status {
	t.Helper()
	reply := get(t, newServer(t, o).Handler(), "/api/v1/status")
	var v Status
	if err := json.Unmarshal(reply.Body.Bytes(), &v); err != nil || reply.Code != http.StatusOK {
		t.Fatalf("got %d %s (%v), want 200 and a verdict", reply.Code, reply.Body, err)
	}
	return v
}

func problemsOf(t *testing.T, o Options) string {
	t.Helper()
	return fmt.Sprint(statusOf(t, o).Problems)
}

func TestDriftIsShownByJob(t *testing.T) {
	o := drifting()
	const jobsOf = "export-orders: only replica-3 knows it. rollup-sales: replica-1 and " +
		"replica-4 have an older definition."
	const groups = "two different cron tables (replica-1, replica-4 / replica-3)"
	text := problemsOf(t, o)
	for _, want := range []string{groups, jobsOf} {
		if !strings.Contains(text, want) {
			t.Errorf("problems are %s, want %s", text, want)
		}
	}
	h := o.Store.(*history)
	h.replicas[1].StartedAt = ago(2*time.Minute - time.Second)
	if text = problemsOf(t, o); strings.Contains(text, "cron tables") {
		t.Errorf("in a deploy problems are %s", text)
	}
	h.replicas[1].StartedAt = ago(2 * time.Minute)
	if text = problemsOf(t, o); !strings.Contains(text, groups) {
		t.Errorf("once it should be over: %s", text)
	}
	for n := range 10 {
		h.drift = append(h.drift, storage.JobDrift{Job: fmt.Sprint("more-", n),
			Newest: []string{"replica-3"}, Older: []string{"replica-1"}})
	}
	if text = problemsOf(t, o); !strings.Contains(text, "And two jobs more.") ||
		strings.Contains(text, "more-8") {
		t.Errorf("of many: %s", text)
	}
}

func TestCronTablesOfIgnoredReplicas(t *testing.T) {
	for name, change := range map[string]func(v *storage.ReplicaView){
		"alike":       func(v *storage.ReplicaView) { v.ConfigHash = "5f3a" },
		"not known":   func(v *storage.ReplicaView) { v.ConfigHash = "" },
		"not living":  func(v *storage.ReplicaView) { v.EndedAt = pointer(ago(time.Minute)) },
		"run out too": func(v *storage.ReplicaView) { v.ExpiresAt = noon },
	} {
		o := drifting()
		change(&o.Store.(*history).replicas[1])
		if text := problemsOf(t, o); strings.Contains(text, "cron tables") {
			t.Errorf("%s: got problems %q, want none about cron tables", name, text)
		}
	}
}

func TestReplicaThatStartsNothingIsReportedOnce(t *testing.T) {
	const words = "Replica replica-4 cannot start runs: its clock is 1m1.25s behind the store's, " +
		"at most 10s are allowed."
	o := drifting()
	if first := statusOf(t, o).Problems[0]; first.Severity != Amber || first.Text != words {
		t.Errorf("the first problem is %+v", first)
	}
	// The replica with the wrong clock serves the page itself.
	o.Session = func() uuid.UUID { return o.Store.(*history).replicas[2].Session }
	o.Ready = func(context.Context) error { return errors.New("its clock is off") }
	if text := problemsOf(t, o); strings.Count(text, "cannot start runs") != 1 {
		t.Errorf("not reported once: %s", text)
	}
}

// A stopping replica is marked, and cannot be drained.
func TestStoppingReplicaIsMarked(t *testing.T) {
	o := drifting()
	stopping := &o.Store.(*history).replicas[1]
	drain := "/replicas/" + stopping.Session.String() + "/drain"
	const badge = `<span class="badge">stopping</span>`
	page := get(t, newServer(t, o).Handler(), "/replicas").Body.String()
	if strings.Contains(page, badge) || !strings.Contains(page, drain) {
		t.Error("before the stop: got no link to drain the replica, or a mark")
	}
	stopping.Stopping = true
	page = get(t, newServer(t, o).Handler(), "/replicas").Body.String()
	if strings.Count(page, badge) != 1 || strings.Contains(page, drain) {
		t.Error("got no mark, or a link to drain the stopping replica")
	}
	form := get(t, newServer(t, o).Handler(), drain).Body.String()
	if !strings.Contains(form, "The replica is stopping. It starts no more runs.") {
		t.Errorf("the form to drain it does not say that it is stopping: %s", form)
	}
}

func TestReplicaStatusIsServed(t *testing.T) {
	o := drifting()
	reply := get(t, newServer(t, o).Handler(), "/api/v1/replicas")
	var views []map[string]any
	if err := json.Unmarshal(reply.Body.Bytes(), &views); err != nil || len(views) != 3 {
		t.Fatalf("got %d %s (%v), want 200 and three replicas", reply.Code, reply.Body, err)
	}
	for key, want := range map[string]any{"clock_offset_ms": 61250.0, "config_hash": "5f3a",
		"draining": false, "stopping": false, "workers": 0.0, "busy": 0.0} {
		if got := views[2][key]; got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	if _, there := views[0]["clock_offset_ms"]; there {
		t.Error("unknown clock offset: got it on the page, want it left out")
	}
}
